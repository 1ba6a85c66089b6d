# SPDX-License-Identifier: Apache-2.0
"""Expected gain of removing a cause, from a bounded model.

The estimate is the ratio of throughput bounds (`sass.throughput`) with and without the instructions the
cause adds: the nearest other ceiling caps it by construction. The high end is the share-removal bound
1 / (1 - share of issued instructions), which also covers exposed latency up to that share. The low end
is 1: an instruction that hides behind another bound costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from warplens_tools.evidence import Instruction
from warplens_tools.finding import Gain
from warplens_tools.sass.listing import Sass
from warplens_tools.sass.throughput import pipe_cycles


def evenly(indices: Sequence[int], share: float) -> list[int]:
    """A share, from 0 to 1, of some instructions, taken evenly: from each copy that unrolling made."""
    return [x for i, x in enumerate(indices) if int((i + 1) * share) > int(i * share)]


def removal_gain(
    sass: Sass, removed: Collection[int], floor: Mapping[str, float], added: Mapping[str, float] | None = None
) -> Gain | None:
    """Gain if the instructions at indices `removed` were gone; None where there is nothing to remove.

    `floor` are cycles of resources that stay as they are (`MemoryTraffic.cycles`), `added` of those that go with what
    is removed.
    """
    if not removed or not sass:
        return None
    kept = sass.without(removed)
    share = 1.0 - sum(kept) / sum(sass.weights)
    before = sass.cycles | dict(floor)
    loaded = before | {name: before.get(name, 0.0) + cycles for name, cycles in (added or {}).items()}
    ratio = bound_ratio(loaded, sass.cycles_at(kept) | dict(floor))
    return Gain.of(ratio, max(ratio, 1.0 / max(1.0 - share, 0.05)))


def replacement_gain(
    sass: Sass,
    weights: Sequence[float],
    replace: Callable[[int, Instruction], Instruction | None],
    floor: Mapping[str, float],
    waits: tuple[Mapping[str, float], Mapping[str, float]] = ({}, {}),
) -> Gain:
    """Gain if every instruction became `replace(index, instruction)`; None from it removes the instruction.

    `floor` as in `removal_gain`; `waits` as `Waiting.floors` has them of the same replacement.
    """
    before = sass.cycles_at(weights) | dict(floor) | dict(waits[0])
    changed = [
        (new, weights[i]) for i, x in enumerate(sass.instructions) if (new := replace(i, x)) is not None
    ]
    after = pipe_cycles([x for x, _ in changed], [w for _, w in changed], sass.gpu)
    after |= dict(floor) | dict(waits[1])
    ratio = bound_ratio(before, after)
    return Gain.of(ratio, ratio)


def bound_ratio(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """Busiest pipe before over busiest pipe after; 1 where nothing is left."""
    top = max(after.values(), default=0.0)
    return max(before.values(), default=0.0) / top if top else 1.0
