# SPDX-License-Identifier: Apache-2.0
"""Whether a rebuilt program holds the machine code that was judged; with nvcc and cuobjdump."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.standard import STANDARD

from warplens.measure.build.shipped import shipped_otherwise
from warplens_tools.run.build import Overlay, build_program
from warplens_tools.run.workload import Workload
from warplens_tools.toolchain.compile import compile_unit
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import Toolchain, resolve_toolchain

pytestmark = pytest.mark.compiler

TEXT = """\
__device__ __noinline__ int helper(int x) { return x * 3 + 1; }
__global__ void scale(int* out) {{ out[threadIdx.x] = helper(out[threadIdx.x]) + VALUE; }
__global__ void other(int* out) { out[threadIdx.x] = 5; }
int main() { scale<<<1, 32>>>(nullptr); other<<<1, 32>>>(nullptr); return 0; }
""".replace("{{", "{")
ENTRY = "_Z5scalePi"


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    found = resolve_toolchain()
    if found.find("nvcc") is None or found.find("cuobjdump") is None:
        pytest.skip("no nvcc or no cuobjdump")
    return found


def shipped(toolchain: Toolchain, folder: Path, judged: str, built: str) -> str:
    """What is said of a program of the text `built` for the cubin of the text `judged`."""
    unit = folder / "k.cu"
    unit.write_text(TEXT)
    evidence = compile_unit(
        unit,
        toolchain=toolchain,
        flags=CompileFlags((), "test"),
        arch="sm_90",
        workdir=folder / "judged",
        overlay=judged,
    )
    program = build_program(
        Workload(str(unit), str(unit), flags=STANDARD),
        toolchain=toolchain,
        arch="sm_90",
        folder=folder / "program",
        overlay=Overlay(str(unit), built),
    )
    return shipped_otherwise(Path(evidence.cubin_path), ENTRY, program, toolchain=toolchain, folder=folder)


def test_the_same_text_ships_the_code_that_was_judged(toolchain: Toolchain, tmp_path: Path) -> None:
    text = TEXT.replace("VALUE", "7")
    assert shipped(toolchain, tmp_path, text, text) == ""


def test_code_that_knows_where_it_is_compiled_is_told(toolchain: Toolchain, tmp_path: Path) -> None:
    """The name of the file that is compiled is longer where the judge puts it, or shorter."""
    text = TEXT.replace("VALUE", "int(sizeof(__BASE_FILE__))")
    assert "is not the machine code that was judged" in shipped(toolchain, tmp_path, text, text)


def test_a_function_that_the_kernel_calls_is_looked_at(toolchain: Toolchain, tmp_path: Path) -> None:
    text = TEXT.replace("VALUE", "7")
    said = shipped(toolchain, tmp_path, text, text.replace("x * 3 + 1", "x * 3 + 2"))
    assert "is not the machine code that was judged" in said


def test_a_program_without_the_kernel_carries_none(toolchain: Toolchain, tmp_path: Path) -> None:
    text = TEXT.replace("VALUE", "7")
    assert "carries no machine code of scale" in shipped(
        toolchain, tmp_path, text, text.replace("scale", "Scale")
    )
