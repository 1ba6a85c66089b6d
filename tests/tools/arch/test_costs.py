# SPDX-License-Identifier: Apache-2.0
"""The measured costs of an architecture are what the benchmark of costs says, and stand nowhere else."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from warplens_tools.arch.load import load_architecture

ROOT = Path(__file__).parents[3]
FIGURES: dict[str, float] = {
    figure["name"]: figure["clocks"]
    for figure in json.loads((ROOT / "docs" / "benchmarks" / "costs.json").read_text())["figures"]
}
COSTS = load_architecture("sm_90").costs


def different(words: int) -> float:
    """Different words among 32 even draws."""
    return words * (1.0 - (1.0 - 1.0 / words) ** 32)


@pytest.mark.parametrize(
    ("cost", "measured"),
    [
        (COSTS.atomic, FIGURES["global int, 1 places 4 B apart"]),
        (COSTS.atomic_float, FIGURES["global float, 1 places 4 B apart"]),
        (COSTS.shared_atomic, FIGURES["shared int, 32 lanes a word"] / 32),
        (COSTS.shared_swap, FIGURES["shared float, 32 lanes a word, words of the warp"] / 32),
        (
            COSTS.shared_swap_growth,
            math.log(
                FIGURES["shared float, 32 lanes a word"]
                / FIGURES["shared float, 32 lanes a word, words of the warp"],
                8,
            ),
        ),
        (COSTS.l2_wait, FIGURES["latency, 64 KB"]),
        (COSTS.memory_wait, FIGURES["latency, 2097152 KB"]),
        (COSTS.barrier_clocks(1), FIGURES["barriers, blocks of 32, 1 on an SM"]),
        (COSTS.barrier_clocks(8), FIGURES["barriers, blocks of 256, 1 on an SM"]),
        (COSTS.barrier_clocks(32), FIGURES["barriers, blocks of 1024, 1 on an SM"]),
        (COSTS.constant_word, FIGURES["constants, 1024 B of table"] / different(256)),
        (COSTS.block_start, FIGURES["empty blocks of 256"] / 132),
    ],
)
def test_a_cost_is_what_was_measured(cost: float, measured: float) -> None:
    assert cost == pytest.approx(measured, rel=0.1)
