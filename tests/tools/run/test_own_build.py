# SPDX-License-Identifier: Apache-2.0
"""Programs with a build of their own: Make, CMake, several units, relocatable device code; never in the user's tree."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.standard import STANDARD

from warplens_tools.errors import CompileError, InputError
from warplens_tools.run import copy
from warplens_tools.run.build import Overlay, build_program
from warplens_tools.run.confine import Confinement, abilities, confined
from warplens_tools.run.copy import copy_project
from warplens_tools.run.workload import Workload
from warplens_tools.toolchain.locate import Toolchain, resolve_toolchain

KERNELS = """#pragma once
__device__ float twice(float x);
template <class T> __global__ void scale(T* x) { x[threadIdx.x] = twice(x[threadIdx.x]) + VALUE; }
inline int value() { return VALUE; }
"""
MAIN = """#include <cstdio>
#include "../include/kernels.cuh"
int main() { float* x = nullptr; scale<float><<<1, 32>>>(x); std::printf("%d\\n", value()); return 0; }
"""
DEVICE = "__device__ float twice(float x) { return 2 * x; }\n"
#: Builds in its own folder, as most do.
MAKEFILE = """NVCCFLAGS = -std=c++14 -arch=$(ARCH) -rdc=true -DVALUE=1
app: src/main.o src/device.o
\t$(NVCC) -arch=$(ARCH) -rdc=true $^ -o $@
src/%.o: src/%.cu include/kernels.cuh
\t$(NVCC) $(NVCCFLAGS) -dc $< -o $@
"""
CMAKE = """cmake_minimum_required(VERSION 3.20)
project(app LANGUAGES CUDA)
add_executable(app src/main.cu src/device.cu)
set_target_properties(app PROPERTIES CUDA_SEPARABLE_COMPILATION ON)
target_compile_definitions(app PRIVATE VALUE=1)
"""


@pytest.fixture
def nvcc() -> str:
    found = resolve_toolchain().find("nvcc")
    if found is None:
        pytest.skip("no nvcc")
    return found.path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "user's project"
    texts = {
        "include/kernels.cuh": KERNELS,
        "src/main.cu": MAIN,
        "src/device.cu": DEVICE,
        "Makefile": MAKEFILE,
        "CMakeLists.txt": CMAKE,
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(p.relative_to(root)): (p.stat().st_mtime_ns, p.read_bytes()) for p in files}


def said(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout


@pytest.mark.compiler
def test_make_builds_in_a_copy_with_an_edited_header(project: Path, tmp_path: Path, nvcc: str) -> None:
    before = snapshot(project)
    header, unit = project / "include/kernels.cuh", project / "src/main.cu"
    build = (
        "make",
        "-s",
        "-C",
        "{root}",
        "app",
        f"NVCC={nvcc}",
        "ARCH={arch}",
        "&&",
        "cp",
        "{root}/app",
        "{output}",
    )
    work = Workload(str(header), str(unit), build=build, root=str(project))
    overlay = Overlay(str(header), KERNELS.replace("return VALUE", "return VALUE + 6"))

    def built(name: str, overlay: Overlay | None) -> Path:
        folder = tmp_path / name
        fence = Confinement((str(folder),))
        return build_program(
            work,
            toolchain=Toolchain({}, {}),
            arch="sm_90",
            folder=folder,
            overlay=overlay,
            through=lambda command: confined(command, fence) if abilities().files else command,
        )

    assert said(built("edited", overlay)) == "7\n"
    broken = Overlay(str(header), KERNELS.replace("return VALUE", "return VALUES"))
    with pytest.raises(CompileError, match=r'"VALUES" is undefined') as caught:
        built("broken", broken)
    message = next(m for m in caught.value.messages if m.severity == "error")
    assert (message.path, message.line) == (str(header), 4)
    assert snapshot(project) == before


@pytest.mark.compiler
@pytest.mark.skipif(shutil.which("cmake") is None, reason="no CMake")
@pytest.mark.thorough
def test_cmake_builds_outside(project: Path, tmp_path: Path, nvcc: str) -> None:
    # an earlier build of the user's own, which knows its place and is of no use elsewhere
    (project / "build").mkdir()
    (project / "build/CMakeCache.txt").write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
    before = snapshot(project)
    unit = project / "src/main.cu"
    configure = (
        *("cmake", "-S", "{root}", "-B", "{folder}/made", f"-DCMAKE_CUDA_COMPILER={nvcc}"),
        "-DCMAKE_CUDA_ARCHITECTURES=90",
    )
    make = ("cmake", "--build", "{folder}/made", "--target", "app")
    build = (*configure, "&&", *make, "&&", "cp", "{folder}/made/app", "{output}")
    work = Workload(str(unit), str(unit), build=build, root=str(project))
    overlay = Overlay(str(unit), MAIN.replace('"%d\\n"', '"edited %d\\n"'))
    program = build_program(
        work, toolchain=Toolchain({}, {}), arch="sm_90", folder=tmp_path / "edited", overlay=overlay
    )
    assert said(program) == "edited 1\n"
    assert snapshot(project) == before


def test_a_build_that_would_not_see_an_edit_is_refused(project: Path, tmp_path: Path) -> None:
    unit = str(project / "src/main.cu")
    work = Workload(unit, unit, build=("make", "-C", str(project)), root=str(project))
    with pytest.raises(InputError, match="would not build an edited file"):
        build_program(
            work,
            toolchain=Toolchain({}, {}),
            arch="sm_90",
            folder=tmp_path / "x",
            overlay=Overlay(unit, "int main() {}"),
        )


@pytest.mark.compiler
def test_an_edited_source_still_finds_what_lies_beside_it(project: Path, tmp_path: Path, nvcc: str) -> None:
    unit = project / "src/whole.cu"
    unit.write_text('#include "../include/kernels.cuh"\nint main() { return value(); }\n' + DEVICE)
    work = Workload(
        str(unit),
        str(unit),
        build=(nvcc, *STANDARD, "-rdc=true", "-DVALUE=1", "-arch={arch}", "{source}", "-o", "{output}"),
    )
    overlay = Overlay(str(unit), unit.read_text().replace("value()", "value() - 1"))
    built = build_program(
        work, toolchain=resolve_toolchain(), arch="sm_90", folder=tmp_path / "x", overlay=overlay
    )
    assert subprocess.run([built], check=False).returncode == 0


def test_a_build_learns_no_credentials(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, "swordfish")
    monkeypatch.setenv("CUTLASS_DIR", "/cutlass")
    unit = str(project / "src/main.cu")
    work = Workload(
        unit, unit, build=("sh", "-c", "env > {output}"), root=str(project), environment={"MODE": "fast"}
    )
    text = build_program(work, toolchain=Toolchain({}, {}), arch="sm_90", folder=tmp_path / "x").read_text()
    assert "swordfish" not in text
    assert "CUTLASS_DIR=/cutlass\n" in text and "MODE=fast\n" in text


@pytest.mark.skipif(not abilities().files, reason="this kernel has no Landlock")
def test_a_build_that_writes_in_the_users_tree_fails_inside_the_fence(project: Path, tmp_path: Path) -> None:
    unit, folder = str(project / "src/main.cu"), tmp_path / "x"
    work = Workload(unit, unit, build=("sh", "-c", f"touch '{project.parent}/made' # {{source}}"))
    with pytest.raises(CompileError, match="Permission denied"):
        build_program(
            work,
            toolchain=Toolchain({}, {}),
            arch="sm_90",
            folder=folder,
            overlay=Overlay(unit, "int main() {}"),
            through=lambda command: confined(command, Confinement((str(folder),))),
        )
    assert not (project.parent / "made").exists()


def test_a_copy_keeps_times_and_leads_its_links_home(project: Path, tmp_path: Path) -> None:
    (project / ".git").mkdir()
    (project / ".git/config").write_text("x")
    os.utime(project / "Makefile", (1, 1))
    (project / "src/link.cu").symlink_to(project / "src/device.cu")
    (project / "gone").symlink_to("nowhere")
    os.mkfifo(project / "pipe")
    made = copy_project(project, tmp_path / "copy")
    assert (made / "Makefile").stat().st_mtime == 1
    (made / "src/link.cu").write_text("changed\n")
    assert (project / "src/device.cu").read_text() == DEVICE
    assert (made / "src/device.cu").read_text() == "changed\n"
    assert not any((made / name).exists() for name in (".git", "gone", "pipe"))


def test_a_project_too_large_or_gone_is_not_copied(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="does not exist"):
        copy_project(project / "no", tmp_path / "a")
    monkeypatch.setattr(copy, "MOST_BYTES", 10)
    with pytest.raises(InputError, match="too large"):
        copy_project(project, tmp_path / "b")
    unit = tmp_path / "elsewhere.cu"
    unit.write_text("int main() {}")
    work = Workload(str(unit), str(unit), build=("make", "-C", "{root}"), root=str(project))
    with pytest.raises(InputError, match="is not in the project folder"):
        build_program(work, toolchain=Toolchain({}, {}), arch="sm_90", folder=tmp_path / "c")
