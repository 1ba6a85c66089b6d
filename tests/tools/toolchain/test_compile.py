# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import psutil
import pytest

from warplens_tools.errors import CancelledError, CompileError, InputError, MissingToolError, ToolFailedError
from warplens_tools.evidence import BinaryEvidence
from warplens_tools.process.task import Task
from warplens_tools.toolchain.compile import compile_unit
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import Missing, Tool, Toolchain

pytestmark = pytest.mark.compiler

FLAGS = CompileFlags(("-std=c++17",), "defaults")
KERNELS = """\
#include "inc.h"
template <class T> __global__ void __launch_bounds__(128) scale(T* p) { *p = twice(*p); }
template __global__ void scale<float>(float*);
template __global__ void scale<double>(double*);
extern "C" __global__ void plain(int* p) { __shared__ int t[32]; t[*p] = *p; __syncthreads(); *p = t[0]; }
"""
HEADER = "template <class T> __device__ T twice(T x) { return x + x; }\n"

#: A quarter of a million instantiations: the front end is busy for far longer than the test waits.
SLOW = """\
template <int A, int B> struct G {
  static __device__ int f(int x) { return G<A - 1, B>::f(x) * G<A - 1, B + (1 << A)>::f(x + B); }
};
template <int B> struct G<0, B> { static __device__ int f(int x) { return x * B; } };
__global__ void k(int* p) { *p = G<18, 0>::f(*p); }
"""


def _compile(
    unit: Path, toolchain: Toolchain, workdir: Path, *, arch: str = "sm_90", overlay: str | None = None
) -> BinaryEvidence:
    return compile_unit(unit, toolchain=toolchain, flags=FLAGS, arch=arch, workdir=workdir, overlay=overlay)


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    folder = tmp_path / "user's folder"
    folder.mkdir()
    (folder / "inc.h").write_text(HEADER)
    path = folder / "k.cu"
    path.write_text(KERNELS)
    return path


#: Special functions that the host uses.
SPECIAL = (
    "",
    "double f(double x) { return std::beta(x, 2.0); }",
    "float f(float x) { return std::expintf(x); }",
)


@pytest.mark.parametrize("used", SPECIAL)
@pytest.mark.sampled(1)
def test_without_special_functions_the_same_device_code_is_made(
    used: str, toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NVCC_PREPEND_FLAGS")  # with which all other tests go without them
    text = f"#include <cmath>\n{used}\n__global__ void k(float* p) {{ *p = sinf(*p) + norm3df(*p, 1, 2); }}\n"
    (tmp_path / "k.cu").write_text(text)

    def code(name: str, *, special_functions: bool) -> tuple[bytes, BinaryEvidence]:
        made = compile_unit(
            tmp_path / "k.cu",
            toolchain=toolchain,
            flags=FLAGS,
            arch="sm_90",
            workdir=tmp_path / name,
            special_functions=special_functions,
        )
        return Path(made.cubin_path).read_bytes(), made

    lean, whole = code("lean", special_functions=False), code("whole", special_functions=True)
    assert lean[0] == whole[0]
    assert lean[1].kernels == whole[1].kernels and lean[1].messages == whole[1].messages
    assert set(lean[1].dependencies) <= set(whole[1].dependencies)


def test_a_unit_that_calls_other_units_functions_is_compiled_for_the_linker_where_that_is_asked_for(
    toolchain: Toolchain, tmp_path: Path
) -> None:
    unit = tmp_path / "k.cu"
    unit.write_text("__device__ float other(float x);\n__global__ void k(float* p) { *p = other(*p); }\n")

    def made(name: str, *, relocatable: bool) -> BinaryEvidence:
        return compile_unit(
            unit,
            toolchain=toolchain,
            flags=FLAGS,
            arch="sm_90",
            workdir=tmp_path / name,
            relocatable=relocatable,
        )

    with pytest.raises(CompileError, match="Unresolved extern"):
        made("whole", relocatable=False)
    evidence = made("linked", relocatable=True)
    assert [k.qualified_name for k in evidence.kernels] == ["k"]
    assert evidence.origin.endswith(" -rdc=true")


def test_kernels_resources_and_dependencies(unit: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    evidence = _compile(unit, toolchain, tmp_path / "w")
    assert sorted(k.qualified_name for k in evidence.kernels) == ["plain", "scale", "scale"]
    by_name = {k.demangled: k for k in evidence.kernels}
    assert by_name["plain"].resources.shared_bytes == 128
    assert by_name["plain"].resources.barriers == 1
    assert by_name["void scale<float>(float*)"].max_threads == 128
    assert all(k.resources.registers > 0 and k.arch == "sm_90" for k in evidence.kernels)
    assert evidence.dependencies[0] == str(unit)
    assert str(unit.parent / "inc.h") in evidence.dependencies
    assert Path(evidence.cubin_path).is_file()
    assert Path(evidence.ptx_path).is_file()
    assert {p.name for p in unit.parent.iterdir()} == {"k.cu", "inc.h"}


def test_overlay_text_keeps_the_files_own_name_and_lines(
    unit: Path, toolchain: Toolchain, tmp_path: Path
) -> None:
    with pytest.raises(CompileError) as caught:
        _compile(unit, toolchain, tmp_path / "w", overlay=KERNELS + "__global__ void n() { nope; }\n")
    (message,) = [m for m in caught.value.messages if m.severity == "error"]
    assert (message.path, message.line) == (str(unit), 6)
    assert unit.read_text() == KERNELS


def test_every_error_has_its_line(unit: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    unit.write_text("__global__ void a() { x; }\n\n__global__ void b() { y; }\n")
    with pytest.raises(CompileError, match=r"k\.cu:1: .*and 1 more") as caught:
        _compile(unit, toolchain, tmp_path / "w")
    assert [m.line for m in caught.value.messages if m.severity == "error"] == [1, 3]


def test_missing_include(unit: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    unit.write_text('\n#include "none.h"\n')
    with pytest.raises(CompileError, match=r"k\.cu:2: none\.h: No such file"):
        _compile(unit, toolchain, tmp_path / "w")


def test_unknown_architecture_lists_the_known(unit: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sm_12") as caught:
        _compile(unit, toolchain, tmp_path / "w", arch="sm_12")
    assert "sm_90" in caught.value.remedy


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_refused_clearly(unit: Path, toolchain: Toolchain, tmp_path: Path, encoding: str) -> None:
    unit.write_text("\ufeff" + KERNELS, encoding=encoding)
    with pytest.raises(InputError, match="UTF-16"):
        _compile(unit, toolchain, tmp_path / "w")


def test_crlf_symlink_and_read_only_folder(unit: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    unit.write_text(KERNELS.replace("\n", "\r\n"), newline="")
    link = unit.parent / "link.cu"
    link.symlink_to("k.cu")
    unit.parent.chmod(0o555)
    try:
        evidence = _compile(link, toolchain, tmp_path / "w")
    finally:
        unit.parent.chmod(0o755)
    assert len(evidence.kernels) == 3
    assert evidence.path == str(link)


def test_symlink_loop_is_an_input_error(unit: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    loop = unit.parent / "loop.cu"
    loop.symlink_to("loop.cu")
    with pytest.raises(InputError, match="cannot read"):
        _compile(loop, toolchain, tmp_path / "w")


def test_empty_file_has_no_kernels(unit: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    unit.write_text("")
    assert _compile(unit, toolchain, tmp_path / "w").kernels == ()


def test_feature_of_the_arch_specific_target_says_so(
    unit: Path, toolchain: Toolchain, tmp_path: Path
) -> None:
    unit.write_text('__global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }\n')
    with pytest.raises(CompileError) as caught:
        _compile(unit, toolchain, tmp_path / "w")
    assert caught.value.remedy == "compile for sm_90a"
    assert caught.value.messages[-1].severity == "error"
    assert _compile(unit, toolchain, tmp_path / "w", arch="sm_90a").kernels[0].arch == "sm_90a"


def test_cancel_kills_nvcc_and_its_children(unit: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    unit.write_text(SLOW)
    task = Task()
    before = _ours()
    timer = threading.Timer(0.5, task.token.cancel)
    timer.start()
    started = time.monotonic()
    with pytest.raises(CancelledError):
        compile_unit(unit, toolchain=toolchain, flags=FLAGS, arch="sm_90", workdir=tmp_path / "w", task=task)
    # it would go on for minutes
    assert time.monotonic() - started < 20
    assert _ours() <= before


def _ours() -> set[int]:
    names = {"nvcc", "cicc", "ptxas", "cudafe++"}
    return {
        p.pid
        for p in psutil.Process(os.getpid()).children(recursive=True)
        if p.is_running() and p.name() in names and p.status() != psutil.STATUS_ZOMBIE
    }


def test_no_host_compiler_is_a_missing_tool(unit: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    tools = dict(toolchain.tools)
    del tools["host_compiler"]
    gone = Missing("host_compiler", "no C++ compiler was found", "install a C++ compiler")
    with pytest.raises(MissingToolError, match="C\\+\\+ compiler") as caught:
        _compile(unit, Toolchain(tools, {**toolchain.missing, "host_compiler": gone}), tmp_path / "w")
    assert caught.value.remedy == "install a C++ compiler"


#: What nvcc 13 prints where parts of 13.0 and 13.4 are mixed, as seen.
MIXED = [
    "Command-line error: invalid option: --simt-only\n1 catastrophic error detected in this compilation.",
    "ptxas /tmp/k.ptx, line 9; fatal   : Unsupported .version 9.4; current version is '9.0'",
    'cuda_toolkit.h:41:8: error: #error "CUDA compiler and CUDA toolkit headers are incompatible, check"',
]


@pytest.mark.parametrize("said", MIXED)
def test_mixed_releases_are_recognised(unit: Path, toolchain: Toolchain, tmp_path: Path, said: str) -> None:
    (tmp_path / "said").write_text(said)
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(f"#!/bin/sh\ncat {tmp_path}/said >&2\nexit 1\n")
    nvcc.chmod(0o755)
    mixed = Toolchain({**toolchain.tools, "nvcc": Tool("nvcc", str(nvcc), "test")}, toolchain.missing)
    with pytest.raises(ToolFailedError, match="different releases") as caught:
        _compile(unit, mixed, tmp_path / "w")
    assert "warplens doctor" in caught.value.remedy


def test_an_unknown_option_names_where_it_comes_from(
    unit: Path, toolchain: Toolchain, tmp_path: Path
) -> None:
    flags = CompileFlags(("-nonsense",), "/p/compile_commands.json")
    with pytest.raises(InputError, match=r"-nonsense, from /p/compile_commands\.json"):
        compile_unit(unit, toolchain=toolchain, flags=flags, arch="sm_90", workdir=tmp_path / "w")
