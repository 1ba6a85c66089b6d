# SPDX-License-Identifier: Apache-2.0
"""Cycles that a warp's pass takes of each pipe."""

from __future__ import annotations

import pytest
from tests.tools.sass.written import GPU, code

from warplens_tools.sass.throughput import instruction_cycles, pipe_cycles


def test_clocks_are_lanes_over_the_rate_and_issue_counts_all() -> None:
    found = pipe_cycles(
        code("FFMA R0, R1, R2, R3\nDADD R4, R6, R8\nMUFU.RCP R9, R9\nEXIT"), [2, 1, 1, 1], GPU
    )
    assert found["fp32"] == 2 * 32 / GPU.rates.fp32_fma
    assert found["fp64"] == 32 / GPU.rates.fp64_fma
    assert found["sfu"] == 32 / GPU.rates.sfu
    assert found["issue"] == 5 / GPU.limits.schedulers


@pytest.mark.parametrize(("width", "cycles"), [("", 1.0), (".64", 2.0), (".128", 4.0)])
def test_wide_accesses_take_the_data_path_longer(width: str, cycles: float) -> None:
    (x,) = code(f"LDG.E{width} R4, [R2]")
    assert instruction_cycles(x, "lsu", GPU) == cycles


def test_matrix_instructions_go_at_the_rate_of_their_type() -> None:
    half, brain = code("HMMA.16816.F32 R4, R8, R12, R4\nHMMA.16816.F32.BF16 R4, R8, R12, R4")
    per = 16 * 8 * 16
    assert instruction_cycles(half, "tensor", GPU) == per / GPU.rates.tensor_fma["fp16"]
    assert instruction_cycles(brain, "tensor", GPU) == per / GPU.rates.tensor_fma["bf16"]


def test_nothing_takes_nothing() -> None:
    assert pipe_cycles((), (), GPU) == {"issue": 0.0}
