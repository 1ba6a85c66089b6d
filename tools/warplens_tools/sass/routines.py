# SPDX-License-Identifier: Apache-2.0
"""The compiler's routines behind a kernel's own code, which it calls: division of 64 bits, `pow` of doubles."""

from __future__ import annotations

from collections.abc import Sequence

from warplens_tools.evidence import Instruction
from warplens_tools.sass.blocks import body_of
from warplens_tools.sass.flow import Flow


def with_routines(instructions: Sequence[Instruction], flow: Flow, weights: Sequence[float]) -> list[float]:
    """The weights, with those of routines as often as they are called.

    A call that a branch of the same loop passes over is the way out for rare operands, and does not count; where it is
    one of two sides it counts as half of the times.
    """
    found = list(weights)
    for i, x in enumerate(instructions):
        if x.opcode == "CALL" and x.target is not None:
            share = _share(instructions, flow, i)
            for k in body_of(instructions, x.target) if share else ():
                found[k] += share * weights[i]
    return found


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
