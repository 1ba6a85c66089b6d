# SPDX-License-Identifier: Apache-2.0
"""Causes that counters alone show, on built code with built counts."""

from __future__ import annotations

import msgspec
import pytest

from warplens_tools.analysis import analyse_kernel
from warplens_tools.collect import metrics as names
from warplens_tools.evidence import (
    BinaryEvidence,
    CompiledKernel,
    CounterEvidence,
    Instruction,
    InstructionCounters,
    KernelEvidence,
    Resources,
    SourceLine,
)
from warplens_tools.kernel import KernelView
from warplens_tools.machine.counted import Wasteful
from warplens_tools.micro.registry import TOOLS
from warplens_tools.sass.varying import gathering
from warplens_tools.testing import silenced, views

PROGRAM = """__global__ void gather(float *out, const float *in, const int *at, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float here = in[n - i];
    float there = in[at[i]];
    out[i] = here + there;
}
"""
CODE = (
    ("LDC", ("R1", "c[0x0][0x210]"), 3),
    ("S2R", ("R0", "SR_TID.X"), 3),
    ("LDG", ("R2", "desc[UR4][R0.64]"), 4),
    ("LDG", ("R6", "desc[UR4][R8.64]"), 5),
    ("IMAD", ("R10", "R6", "R1", "R12"), 5),
    ("LDG", ("R4", "desc[UR4][R10.64]"), 5),
    ("STG", ("desc[UR4][R0.64]", "R4"), 6),
)


def view_of(*sectors: float, ideal: float = 4.0, **metrics: float) -> KernelView:
    """The kernel with sectors by memory instruction, each executed once."""
    code = tuple(
        Instruction(16 * i, opcode, (), operands, lines=(SourceLine("sample.cu", line),))
        for i, (opcode, operands, line) in enumerate(CODE)
    )
    amounts = iter(sectors)
    counts = []
    for x in code:
        values = {"inst_executed": 1.0, "thread_inst_executed": 32.0}
        if x.opcode in ("LDG", "STG"):
            values |= {names.GLOBAL_SECTORS: next(amounts), f"{names.GLOBAL_SECTORS}_ideal": ideal}
        text = f"{x.opcode} {', '.join(x.operands)}"
        counts.append(InstructionCounters(x.address, text, None, values))
    compiled = CompiledKernel("gather", "gather", "gather", "sm_90", Resources(16), code)
    counters = CounterEvidence(
        "ncu 2025.3", "gather", "", "9.0", (1, 1, 1), (32, 1, 1), metrics, instructions=tuple(counts),
        lines={4: {names.GLOBAL_SECTORS: sectors[0], f"{names.GLOBAL_SECTORS}_ideal": ideal}},
        stalls={"long_scoreboard": 1.0},
    )  # fmt: skip
    binary = BinaryEvidence("sample.cu", "sm_90", "nvcc 13.0", (), (compiled,), disassembled=True)
    evidence = KernelEvidence(compiled=(compiled,), binary=binary, counters=counters)
    (view,) = views(PROGRAM, evidence={"gather": evidence})
    return view


def wasteful_line(view: KernelView, *, stores: bool | None = None) -> Wasteful | None:
    assert view.counted is not None
    return view.counted.wasteful_line(names.GLOBAL_SECTORS, "global", stores=stores)


def test_an_address_out_of_loaded_data_gathers() -> None:
    found = view_of(4, 4, 32, 4).counted
    assert found is not None
    assert gathering(found.instructions) == {5}


def test_the_line_that_wastes_most_is_found_and_gathers_are_left_alone() -> None:
    found = wasteful_line(view_of(32, 4, 32, 4), stores=False)
    assert found is not None
    assert (found.line, found.ratio, found.each) == (4, 8.0, 32.0)
    assert wasteful_line(view_of(4, 4, 32, 4), stores=False) is None
    assert wasteful_line(view_of(4, 4, 4, 4)) is None


def test_counts_of_other_code_show_nothing() -> None:
    view = view_of(32, 4, 4, 4)
    counters = view.evidence.counters
    assert counters is not None
    shorter = msgspec.structs.replace(counters, instructions=counters.instructions[:-1])
    other = msgspec.structs.replace(view.evidence, counters=shorter)
    assert msgspec.structs.replace(view, evidence=other).counted is None


@pytest.mark.parametrize(("dram", "told"), [(10.0, True), (95.0, False)])
def test_what_no_tool_has_read_is_told_where_a_repair_is_worth_it(dram: float, told: bool) -> None:
    metrics = {names.DRAM_THROUGHPUT: dram, names.DRAM_READ: 384.0, names.DRAM_WRITE: 128.0}
    view = view_of(32, 4, 4, 4, **metrics)
    silent = tuple(map(silenced, TOOLS))
    found = analyse_kernel(view.kernel, view.model, view.text, view.gpu, view.evidence, silent).findings
    assert [f.slug for f in found] == (["uncoalesced-global-read"] if told else [])
