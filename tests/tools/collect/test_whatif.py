# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from warplens_tools.arch.load import load_architecture
from warplens_tools.collect.whatif import Bounds, what_if, with_bounds
from warplens_tools.errors import InputError
from warplens_tools.evidence import BinaryEvidence
from warplens_tools.toolchain.compile import compile_unit
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import resolve_toolchain

EXAMPLE = Path(__file__).parents[3] / "examples/first/filter_bank.cu"
PTX = """.version 9.0
.visible .entry _Z1kv(
\t.param .u64 p
)
.maxntid 1024, 1, 1
.minnctapersm 2
{
\tret;
}
.entry _Z2k2v()
.maxntid 64, 1, 1
{
\tret;
}
"""


def test_only_the_named_entry_changes() -> None:
    edited = with_bounds(PTX, "_Z1kv", Bounds(max_threads=256, min_blocks=4))
    assert ".maxntid 256, 1, 1\n.minnctapersm 4\n{" in edited
    assert ".maxntid 1024" not in edited
    assert ".maxntid 64, 1, 1" in edited
    assert ".maxn" not in with_bounds(PTX, "_Z2k2v", Bounds()).split("_Z2k2v")[1]


def test_impossible_wishes_are_refused() -> None:
    with pytest.raises(InputError, match="no entry _Z3kkkv"):
        with_bounds(PTX, "_Z3kkkv", Bounds())
    with pytest.raises(InputError, match="exclude each other"):
        with_bounds(PTX, "_Z1kv", Bounds(registers=32, min_blocks=2))


def test_a_unit_without_ptx_says_so(tmp_path: Path) -> None:
    evidence = BinaryEvidence("k.cu", "sm_90", "nvcc", (), ())
    with pytest.raises(InputError, match="was not kept"):
        what_if(evidence, "_Z1kv", [Bounds()], block_threads=32, limits=load_architecture("sm_90").limits,
                toolchain=resolve_toolchain(), workdir=tmp_path)  # fmt: skip


@pytest.mark.compiler
def test_ptxas_answers_as_a_compilation_would(tmp_path: Path) -> None:
    toolchain = resolve_toolchain()
    compiled = compile_unit(
        EXAMPLE, toolchain=toolchain, flags=CompileFlags((), "test"), arch="sm_90", workdir=tmp_path / "unit"
    )
    (kernel,) = compiled.kernels
    same, roomy, capped = what_if(
        compiled,
        kernel.mangled,
        [Bounds(1024, 2), Bounds(256), Bounds(max_threads=256, registers=40)],
        block_threads=256,
        limits=load_architecture("sm_90").limits,
        toolchain=toolchain,
        workdir=tmp_path / "whatif",
    )
    assert same.resources == kernel.resources, "the bounds as written give what nvcc reported"
    assert roomy.resources.spill_store_bytes == 0
    assert roomy.resources.registers > kernel.resources.registers
    assert capped.resources.registers <= 40
    assert same.occupancy is not None
    assert roomy.occupancy is not None
    assert roomy.occupancy.occupancy < same.occupancy.occupancy
