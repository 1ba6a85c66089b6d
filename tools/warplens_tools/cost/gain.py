# SPDX-License-Identifier: Apache-2.0
"""Expected gain of removing a cause, from a bounded model.

The estimate is the ratio of throughput bounds (`sass.throughput`) with and without the instructions the
cause adds: the nearest other ceiling caps it by construction. The high end is the share-removal bound
1 / (1 - share of issued instructions), which also covers exposed latency up to that share. The low end
is 1: an instruction that hides behind another bound costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from warplens_tools.arch.gpu import Gpu
from warplens_tools.evidence import Instruction
from warplens_tools.finding import Gain
from warplens_tools.sass.throughput import pipe_cycles


def removal_gain(
    instructions: Sequence[Instruction],
    weights: Sequence[float],
    removed: Collection[int],
    gpu: Gpu,
    floor: Mapping[str, float],
) -> Gain | None:
    """Gain if the instructions at indices `removed` were gone; None where there is nothing to remove.

    `floor` are clocks of resources that stay as they are (`traffic.dram_floor`).
    """
    if not removed or not instructions:
        return None
    gone = frozenset(removed)
    kept = [0.0 if i in gone else weight for i, weight in enumerate(weights)]
    share = 1.0 - sum(kept) / sum(weights)
    before = pipe_cycles(instructions, weights, gpu) | dict(floor)
    ratio = bound_ratio(before, pipe_cycles(instructions, kept, gpu) | dict(floor))
    return make_gain(ratio, 1.0, max(ratio, 1.0 / max(1.0 - share, 0.05)))


def replacement_gain(
    instructions: Sequence[Instruction],
    weights: Sequence[float],
    replace: Callable[[Instruction], Instruction | None],
    gpu: Gpu,
    floor: Mapping[str, float],
) -> Gain:
    """Gain if every instruction became `replace(instruction)`; None from it removes the instruction.

    `floor` as in `removal_gain`.
    """
    before = pipe_cycles(instructions, weights, gpu) | dict(floor)
    changed = [
        (new, w) for x, w in zip(instructions, weights, strict=True) if (new := replace(x)) is not None
    ]
    after = pipe_cycles([x for x, _ in changed], [w for _, w in changed], gpu) | dict(floor)
    ratio = bound_ratio(before, after)
    return make_gain(ratio, 1.0, ratio)


def bound_ratio(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """Busiest pipe before over busiest pipe after; 1 where nothing is left."""
    top = max(after.values(), default=0.0)
    return max(before.values(), default=0.0) / top if top else 1.0


def make_gain(estimate: float, low: float, high: float) -> Gain:
    """A gain with two decimals and low <= estimate <= high."""
    estimate = max(estimate, 1.0)
    return Gain(round(estimate, 2), round(min(low, estimate), 2), round(max(high, estimate), 2))
