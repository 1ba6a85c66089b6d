# SPDX-License-Identifier: Apache-2.0
"""Atomics on floating-point numbers that a loop of compare-and-swap stands for."""

from __future__ import annotations

from collections.abc import Sequence

from warplens_tools.evidence import Instruction
from warplens_tools.sass.pipes import GLOBAL_ATOMICS

#: Instructions of a loop that does no more than one such update.
LONGEST = 48
#: What an update computes, by what works it out.
_SUMS = frozenset({"DADD", "FADD", "HADD2", "DFMA", "FFMA"})
_OTHERS = frozenset({"DMUL", "FMUL", "HMUL2", "FMNMX", "DSETP", "FSETP", "HMNMX2"})


def emulates(code: Sequence[Instruction], body: Sequence[int]) -> str:
    """ "sum" or "other" where a loop's `body` swaps what it computed of floating-point numbers into global memory until
    no other thread came between; "" for any other loop."""
    swaps = any(code[i].opcode in GLOBAL_ATOMICS and "CAS" in code[i].modifiers for i in body)
    if not swaps or len(body) > LONGEST:
        return ""
    worked = {code[i].opcode for i in body}
    return "sum" if worked & _SUMS else "other" if worked & _OTHERS else ""
