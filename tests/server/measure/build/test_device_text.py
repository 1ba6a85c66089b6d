# SPDX-License-Identifier: Apache-2.0
"""What device code asks of the place and the time is seen after macros; with the real compiler."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.standard import STANDARD

from warplens.measure.build.device_text import DeviceText, asks_more, device_text
from warplens_tools.toolchain.compile import compile_unit
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import resolve_toolchain

pytestmark = pytest.mark.compiler

BASE = """\
#include <cstdio>
#define WORD(x) #x
#define JOIN(a, b) a##b
#define UNDER(a) __##a##__
#define CHECK(x) if (!(x)) std::printf("%s:%d", __FILE__, __LINE__)
__global__ void k(int* x) { int r = 0; x[0] = r; }
int main() { CHECK(cudaDeviceSynchronize() == 0); }
"""
ASKING = {
    "a pasted file": "r = sizeof(__CONCAT(__FI, LE__));",
    "a file by another macro": "r = UNDER(FILE)[3];",
    "the file that is compiled": "r = sizeof(JOIN(__BASE, _FILE__));",
    "a pasted time": "r = UNDER(TIME)[7];",
    "a pasted date": "r = JOIN(__DA, TE__)[4];",
    "the file's own time": "r = JOIN(__TIME, STAMP__)[4];",
    "a pasted function of the compiler's": "r = JOIN(__builtin, _LINE)();",
    "a header's macro": "r = sizeof(WORD(x)); r += sizeof(UNDER(FILE));",
    "assembler that ends early": r'asm volatile("mov.u32 %0, 3;\n\t// end inl" "\x69ne asm\n'
    r'\t// begin inline " R"x(asm)x" "\n\t" : "=r"(r));',
}  # fmt: skip
HONEST = {
    "intrinsics": "r = __popc(__ballot_sync(0xffffffff, r)); __syncwarp();",
    "the architecture": "\n#if __CUDA_ARCH__ >= 900\nr = 3;\n#endif\n",
    "assembler": 'asm volatile("mov.u32 %0, " "3; // inline" : "=r"(r));',
    "a line": "r = __LINE__;",
    "a string": "r = sizeof(WORD(12:30));",
}


def text_of(name: str, code: str, folder: Path) -> DeviceText:
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None:
        pytest.skip("no nvcc")
    evidence = compile_unit(
        folder / "unit.cu",
        toolchain=toolchain,
        flags=CompileFlags(STANDARD, "test"),
        arch="sm_90",
        workdir=folder / name.replace(" ", "-"),
        overlay=BASE.replace("int r = 0;", f"int r = 0; {code}"),
        keep_text=True,
    )
    return device_text(evidence, evidence.path)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    (folder / "unit.cu").write_text(BASE)
    return folder


@pytest.fixture(scope="module")
def own(site: Path) -> DeviceText:
    return text_of("baseline", "", site)


@pytest.mark.parametrize("name", ASKING)
def test_what_is_asked_is_refused(site: Path, own: DeviceText, name: str) -> None:
    assert "the edit" in asks_more(own, text_of(name, ASKING[name], site))


@pytest.mark.parametrize("name", HONEST)
def test_what_computes_is_not(site: Path, own: DeviceText, name: str) -> None:
    assert asks_more(own, text_of(name, HONEST[name], site)) == ""


def test_what_headers_of_the_toolkit_ask_is_not_the_edits(site: Path, own: DeviceText) -> None:
    # with assertions on, it names its own file in them
    folder = site / "with-groups"
    toolchain = resolve_toolchain()
    evidence = compile_unit(
        site / "unit.cu",
        toolchain=toolchain,
        flags=CompileFlags((), "test"),
        arch="sm_90",
        workdir=folder,
        overlay="#include <cooperative_groups.h>\n#include <cassert>\n" + BASE,
        keep_text=True,
    )
    headers = toolchain.find("cuda_headers")
    assert headers is not None
    assert asks_more(own, device_text(evidence, evidence.path, (headers.path,))) == ""
