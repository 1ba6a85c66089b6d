# SPDX-License-Identifier: Apache-2.0
"""Reads of `__constant__` tables whose lanes part ways, or whose warps do in a table that the cache does not hold: it
serves one address per pass."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import msgspec

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.facts.lane_names import lane_names, mentions_lanes
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.kernel_code import KernelCode
from warplens_tools.lazily import cached_property
from warplens_tools.machine.atomics import executions
from warplens_tools.sass.listing import TRIPS_PER_LEVEL

_WORD = 4
#: Bytes of a line of the constant cache (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
#: Microbenchmarking", 2018, table 3.1: the same from Maxwell to Volta).
_LINE_BYTES = 64
#: The number that a term is a multiple of, before or behind the `*`.
_FACTOR = re.compile(r"^\(?\s*(\w+)\s*\*|\*\s*(\w+)\s*\)?$")


class DivergentRead(msgspec.Struct, frozen=True):
    """A read of a `__constant__` array whose lanes read different words."""

    access: ArrayAccess
    #: Different words of a warp's request; expected ones where the index is data.
    words: float
    #: Whether the words follow from the index, not from an assumption on data.
    exact: bool
    #: Different lines of the cache that the words are in.
    lines: float


class ConstantReads:
    """The reads of `__constant__` memory of one kernel."""

    def __init__(self, code: KernelCode) -> None:
        self.code, self.sass, self.warp = code, code.sass, code.gpu.limits.warp_size

    @cached_property
    def divergent(self) -> tuple[DivergentRead, ...]:
        """Those whose lanes read different words, most words first."""
        varying = lane_names(self.code.body)
        every = [a for a in self.code.accesses if a.space == "constant"]
        found = [c for a in every if (c := self._divergent(a, varying)) is not None]
        return tuple(
            sorted(found, key=lambda c: (-c.words * TRIPS_PER_LEVEL ** len(c.access.loops), c.access.span))
        )

    def _divergent(self, access: ArrayAccess, varying: frozenset[str]) -> DivergentRead | None:
        width = type_bytes(access.element_type) or _WORD
        if access.index is not None:
            lanes = self.code.lane_values(access.index)
            count, lines = (len({at * width // n for at in lanes or ()}) for n in (_WORD, _LINE_BYTES))
            return DivergentRead(access, float(count), True, float(lines)) if count > 1 else None
        size = _table_bytes(access)
        if not size or not any(mentions_lanes(text, varying) for text in access.indices):
            return None
        words = max(1, min(size, self._reached(access, varying) * width) // _WORD)
        # The mean number of different ones among as many even draws as there are lanes.
        expected = words * (1.0 - (1.0 - 1.0 / words) ** self.warp)
        return DivergentRead(access, expected, False, expected) if expected > 1.0 else None

    def _reached(self, access: ArrayAccess, varying: frozenset[str]) -> int:
        """Elements of the table among which the lanes part ways: of one row where all lanes share the row, be it an
        index of its own or written `row * width + column`."""
        sizes, texts = getattr(access.declared, "sizes", ()), list(access.indices)
        first = next(n for n, text in enumerate(texts) if mentions_lanes(text, varying))
        reached = math.prod(sizes[first:])
        if first != len(texts) - 1:
            return reached
        known = {c.name: c.value for c in self.code.model.constants}
        for term in _terms(texts[-1]):
            factor = _FACTOR.search(term)
            width = factor[1] or factor[2] if factor is not None else ""
            value = int(width) if width.isdigit() else known.get(width)
            if value and value > 1 and not mentions_lanes(term, varying):
                reached = min(reached, value)
        return reached

    def clocks_of(self, found: Sequence[DivergentRead], *, held: bool = False) -> float:
        """Weighted cycles of the constant cache's passes for some reads: one a word, and what lines miss.

        With `held` those whose lines are known miss none, as through the L1; draws from a table scatter there as well.
        """
        lines, costs = [c.access.span.line for c in found], self.code.gpu.costs
        cycles = 0.0
        for c in found:
            missed = _missed(c.access, costs.constant_cache_bytes) if not (held and c.exact) else 0.0
            each = c.words * costs.constant_word + c.lines * costs.constant_miss * missed
            cycles += (
                each * executions(self.code, c.access.span, 9, {"LDC"}) / lines.count(c.access.span.line)
            )
        return cycles

    @cached_property
    def hidden(self) -> tuple[int, ...]:
        """Indices of the loads whose index differs between lanes and that only SASS shows, as in a function."""
        if self.divergent:
            return ()
        # Bank 2 is the compiler's: the jump tables of `switch`.
        loads = self.sass.where(lambda x: x.opcode == "LDC" and not any("c[0x2]" in o for o in x.operands))
        # SASS does not tell a warp's row of a block from a lane's column.
        told = [a.span.line for a in self._of_warps]
        apart = (i for i in loads if i in self.sass.lane_dependent)
        code, table = self.sass.instructions, self.sass.table
        return tuple(i for i in apart if not any(table.passes(code[i], n) for n in told))

    @cached_property
    def _of_warps(self) -> tuple[ArrayAccess, ...]:
        """Reads that the source gives one word a warp, where the block is known."""
        if self.code.block is None:
            return ()
        every = (
            (a, self.code.lane_values(a.index))
            for a in self.code.accesses
            if a.space == "constant" and a.index
        )
        return tuple(a for a, lanes in every if lanes is not None and len(set(lanes)) == 1)

    @cached_property
    def evicted(self) -> float:
        """Weighted cycles of misses of reads whose lanes agree, and whose warps are at so many lines of a table that
        the cache holds no one's until its next word."""
        costs = self.code.gpu.costs
        return sum(
            costs.constant_miss
            * _missed(a, costs.constant_cache_bytes)
            * executions(self.code, a.span, 9, {"LDC"})
            for a in self._of_warps
            if self.sass and self._lines(a) * _LINE_BYTES >= costs.constant_cache_bytes
        )

    def _lines(self, access: ArrayAccess) -> int:
        """Lines of the cache that the warps of a block are at together."""
        width, index = type_bytes(access.element_type) or _WORD, access.index
        warps = math.prod(self.code.block or ()) // self.warp
        lanes = (self.code.lane_values(index, n) for n in range(warps)) if index is not None else ()
        return len({at[0] * width // _LINE_BYTES for at in lanes if at})

    @cached_property
    def cycles(self) -> float:
        """Weighted cycles of all passes; of `hidden` loads each lane counts with a word of its own."""
        return self._passes(held=False)

    @cached_property
    def held(self) -> float:
        """As `cycles`, if the table were no constant one."""
        return self._passes(held=True)

    def _passes(self, *, held: bool) -> float:
        told = self.clocks_of(self.divergent, held=held) if self.sass else 0.0
        return told + self.sass.weigh(self.hidden) * self.warp * self.code.gpu.costs.constant_word


def _terms(text: str) -> list[str]:
    """What is added up, of an index as it is written."""
    depth, found = 0, [""]
    for char in text:
        depth += (char in "([") - (char in ")]")
        if char == "+" and depth == 0:
            found.append("")
        else:
            found[-1] += char
    return [term.strip() for term in found]


def _table_bytes(access: ArrayAccess) -> int | None:
    """Of the declared array; None where its extents are not known."""
    sizes = getattr(access.declared, "sizes", ())
    if not sizes or None in sizes:
        return None
    size: int = math.prod(sizes) * (type_bytes(access.element_type) or _WORD)
    return size


def _missed(access: ArrayAccess, held: int) -> float:
    """Share of even draws from the table that a cache of `held` bytes misses."""
    size = _table_bytes(access)
    return max(0.0, 1.0 - held / size) if size else 0.0
