# SPDX-License-Identifier: Apache-2.0
"""How often the routines run that stand behind a kernel's own code: `pow` of doubles, a division's slow path."""

from __future__ import annotations

from collections.abc import Sequence

from warplens_tools.evidence import Instruction
from warplens_tools.sass.blocks import body_of
from warplens_tools.sass.flow import Flow

#: Executions of the compiler's own slow paths: so few that nothing is blamed on them, and not none, as they are there.
RARE_WEIGHT = 1.0 / 1024.0


def with_routines(
    instructions: Sequence[Instruction], flow: Flow, weights: Sequence[float]
) -> tuple[float, ...]:
    """The weights, with those of routines as often as they are called.

    A call that a branch of the same loop passes over is the way out for rare operands, and hardly counts; where it is
    one of two sides it counts as half of the times.
    """
    calls = [(i, x.target) for i, x in enumerate(instructions) if x.opcode == "CALL" and x.target is not None]
    if not calls:
        return tuple(weights)
    often: dict[int, float] = {}
    for i, target in calls:
        often[target] = often.get(target, 0.0) + _share(instructions, flow, i) * weights[i]
    found = list(weights)
    for target, times in often.items():
        for k in body_of(instructions, target):
            found[k] *= max(times, RARE_WEIGHT)
    return tuple(found)


def _share(instructions: Sequence[Instruction], flow: Flow, call: int) -> float:
    at = instructions[call].address
    passed = any(
        x.opcode == "BRA" and x.target is not None and x.target > at and flow.depths[j] == flow.depths[call]
        for j, x in enumerate(instructions[:call])
    )
    after = instructions[call + 1] if call + 1 < len(instructions) else None
    is_side = (
        after is not None
        and after.opcode == "BRA"
        and not after.predicate
        and (after.target or 0) > after.address
    )
    return 1.0 if not passed else 0.5 if is_side else 0.0
