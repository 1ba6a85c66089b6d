# SPDX-License-Identifier: Apache-2.0
"""Special functions in full precision: computed on the ordinary pipes, where the unit has an instruction for each."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from warplens_tools.cost.gain import bound_ratio
from warplens_tools.cost.removal import cautious_floor
from warplens_tools.evidence import CompiledKernel
from warplens_tools.sass.attribution import weights, written_line
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.pipes import pipe_of
from warplens_tools.sass.throughput import ISSUE_PER_CLOCK, pipe_cycles
from warplens_tools.view import KernelView

#: Functions that have an intrinsic, in their precise forms.
_PRECISE = re.compile(r"(?<![\w.>])((?:std::)?(?:sin|cos|tan|sincos|log|log2|log10|pow)f?)(?=\s*\()")
#: Instructions of such a form per instruction of the unit that the intrinsic takes: 16 for logf and cosf, 40 for the
#: two of sincosf, 90 for powf's three (nvdisasm of sm_75 to sm_100).
PER_SPECIAL = 20.0


def precise_calls(text: str) -> tuple[str, ...]:
    """The functions in full precision that a line calls, each once."""
    return tuple(dict.fromkeys(_PRECISE.findall(text)))


def precise_indices(view: KernelView, compiled: CompiledKernel) -> list[int]:
    """Arithmetic in loops on the lines that call such functions, without what only huge angles take.

    Where a line computes in double, that is another cause.
    """
    flow = analyse(compiled.instructions)
    lines = [written_line(x, view.model.path) for x in compiled.instructions]
    double = {
        lines[i] for i, x in enumerate(compiled.instructions) if pipe_of(x) == "fp64" and i not in flow.rare
    }
    calling = {n for n in set(lines) - double if n is not None and precise_calls(view.text.line_text(n))}
    return [
        i
        for i, x in enumerate(compiled.instructions)
        if lines[i] in calling and flow.depths[i] and pipe_of(x) in ("fp32", "int", "alu", "sfu")
    ]


def intrinsic_ratio(view: KernelView, compiled: CompiledKernel, indices: Collection[int]) -> float:
    """Bounded time as it is over that with an instruction of the unit, and one beside it, for every `PER_SPECIAL`."""
    weight: Sequence[float] = weights(analyse(compiled.instructions))
    gone = frozenset(indices)
    before = pipe_cycles(compiled.instructions, weight, view.gpu)
    rest = [0.0 if i in gone else w for i, w in enumerate(weight)]
    after = pipe_cycles(compiled.instructions, rest, view.gpu)
    specials = sum(weight[i] for i in gone) / PER_SPECIAL
    after["sfu"] = after.get("sfu", 0.0) + specials * view.gpu.limits.warp_size / view.gpu.rates.sfu
    after["issue"] += 2.0 * specials / ISSUE_PER_CLOCK
    floor = cautious_floor(view, compiled, weight)
    return bound_ratio(before | floor, after | floor)
