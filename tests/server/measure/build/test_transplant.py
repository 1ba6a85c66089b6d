# SPDX-License-Identifier: Apache-2.0
"""The user's program with other device code in it: what it carries, and what cannot be exchanged; with nvcc."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.patience import PATIENCE

from warplens.measure.build.shipped import shipped_otherwise
from warplens.measure.build.transplant import transplanted
from warplens_tools.errors import InputError
from warplens_tools.process.run import run
from warplens_tools.run.workload import Workload
from warplens_tools.toolchain.compile import compile_unit
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import Toolchain, resolve_toolchain

pytestmark = pytest.mark.compiler

TEXT = """\
#include <cstdio>
__constant__ int add = 3;
__global__ void scale(int* out) { out[threadIdx.x] *= 7 + add; }
int main() { std::printf("host of the user's\\n"); return 0; }
"""
#: Other device code, and host code that must not get in.
OTHER = TEXT.replace("*= 7", "*= 9").replace("host of the user's", "host of a stranger's")


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    found = resolve_toolchain()
    if found.find("nvcc") is None or found.find("cuobjdump") is None:
        pytest.skip("no nvcc or no cuobjdump")
    return found


def cubin_of(toolchain: Toolchain, unit: Path, text: str) -> Path:
    evidence = compile_unit(
        unit,
        toolchain=toolchain,
        flags=CompileFlags((), "test"),
        arch="sm_90",
        workdir=unit.parent / "judged",
        overlay=text,
    )
    return Path(evidence.cubin_path)


def exchanged(toolchain: Toolchain, unit: Path, cubin: Path, **more: object) -> Path:
    work = Workload(str(unit), str(unit), **more)  # type: ignore[arg-type]
    folder = unit.parent / "transplanted"
    return transplanted(work, cubin, toolchain=toolchain, arch="sm_90", folder=folder, timeout=PATIENCE)


def test_the_program_has_the_users_host_code_and_the_candidates_machine_code(
    toolchain: Toolchain, tmp_path: Path
) -> None:
    unit = tmp_path / "k.cu"
    unit.write_text(TEXT)
    cubin = cubin_of(toolchain, unit, OTHER)
    program = exchanged(toolchain, unit, cubin)
    assert (
        shipped_otherwise(cubin, "_Z5scalePi", program, toolchain=toolchain, folder=tmp_path / "carried")
        == ""
    )
    assert run([str(program)]).stdout == "host of the user's\n"


def test_device_code_without_what_the_host_names_is_not_taken(toolchain: Toolchain, tmp_path: Path) -> None:
    unit = tmp_path / "k.cu"
    unit.write_text(TEXT)
    cubin = cubin_of(toolchain, unit, OTHER.replace("scale", "enlarge"))
    with pytest.raises(InputError, match="has _Z5scalePi not as the program names it"):
        exchanged(toolchain, unit, cubin)


def test_a_build_command_of_the_users_own_is_named(toolchain: Toolchain, tmp_path: Path) -> None:
    unit = tmp_path / "k.cu"
    unit.write_text(TEXT)
    with pytest.raises(InputError, match="build command"):
        exchanged(toolchain, unit, unit, build=("make", "{output}"))
