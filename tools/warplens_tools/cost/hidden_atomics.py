# SPDX-License-Identifier: Apache-2.0
"""Atomics whose place or whose bound the source does not tell: in functions, on members of records, of masked words.

SASS has them wherever they were inlined from, and tells how many places their addresses can name (`sass.spread`).
"""

from __future__ import annotations

import math
from collections.abc import Collection

from warplens_tools.cuda.facts.atomics import Atomic
from warplens_tools.cuda.values.form_reader import Loop
from warplens_tools.evidence import CompiledKernel, Instruction
from warplens_tools.memory.address_evidence import patterns_of
from warplens_tools.sass.attribution import is_on_line, kernel_line, written_line
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.spread import Spread
from warplens_tools.view import KernelView

GLOBAL_ATOMICS = frozenset({"RED", "REDG", "ATOM", "ATOMG"})
SHARED_ATOMICS = frozenset({"ATOMS"})


def hidden_atomics(view: KernelView, space: str, told: Collection[Atomic]) -> list[Atomic]:
    """Atomics on a bounded number of places that none of `told` is, on the lines where they are written."""
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        return []
    flow = analyse(compiled.instructions)
    lines: dict[int, list[int]] = {}
    for i, x in enumerate(compiled.instructions):
        if x.opcode in _opcodes(space) and not any(is_on_line(x, view.model.path, a.span.line) for a in told):
            line = written_line(x, view.model.path)
            if line is not None:
                lines.setdefault(line, []).append(i)
    found = []
    for line, indices in lines.items():
        places = bounded_places(view, compiled, indices, space)
        if places is not None and places > 1:
            depth = max(flow.depths[i] for i in indices)
            found.append(_atomic(view, space, line, places, depth))
    return found


def bounded_places(
    view: KernelView, compiled: CompiledKernel, indices: Collection[int], space: str
) -> int | None:
    """Most places that any of the atomics at `indices` can name; None where that of one is not bounded by data's width,
    or its lanes are known to be apart."""
    spread = Spread(compiled.instructions, in_block=space == "shared")
    apart = {p.index for p in patterns_of(view, compiled) if p.stride}
    found = [None if i in apart else spread.places(i) for i in indices]
    return max((n for n in found if n is not None), default=None) if found and None not in found else None


def places_on_line(view: KernelView, atomic: Atomic) -> int | None:
    """`bounded_places` of the instructions that an atomic of the source became."""
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        return None
    indices = [
        i
        for i, x in enumerate(compiled.instructions)
        if x.opcode in _opcodes(atomic.space) and _of_line(view, x) == atomic.span.line
    ]
    return bounded_places(view, compiled, indices, atomic.space)


def _opcodes(space: str) -> frozenset[str]:
    return SHARED_ATOMICS if space == "shared" else GLOBAL_ATOMICS


def _of_line(view: KernelView, instruction: Instruction) -> int | None:
    return kernel_line(instruction, view.model.path, view.kernel)


def _atomic(view: KernelView, space: str, line: int, places: int, depth: int) -> Atomic:
    shared = [a for a in view.kernel.arrays if a.space == "shared"]
    one = shared[0] if space == "shared" and len(shared) == 1 else None
    extents = one.sizes if one is not None else ()
    known = [n for n in extents if n]
    if known and len(known) == len(extents):
        places = min(places, math.prod(known))
    span = view.line_span(line)
    return Atomic(
        function="",
        name=one.name if one is not None else f"{space} memory",
        space="shared" if space == "shared" else "global",
        element_type=one.element_type if one is not None else "",
        index_text="",
        index=None,
        places=places,
        varies=True,
        leader=False,
        span=span,
        loops=(Loop(span, -1),) * depth,
    )
