# SPDX-License-Identifier: Apache-2.0
"""Whether lanes that a run-time value keeps apart are known to be far apart.

In `a[i * stride]` the stride is 1 as likely as not: of an accessor, of a tensor's innermost extent, of a flag. In
`a[i * columns + k]` something else goes along between the lanes, so they are rows apart, and what is left of their
sectors is wanted too: that can be coalesced by another layout of the threads, where a diagonal cannot. How far apart is
another question, where a thread goes through all of its row.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from warplens_tools.arch.gpu import SECTOR_BYTES, Limits
from warplens_tools.cuda.values.forms import Form, Monomial, Symbol
from warplens_tools.cuda.values.loop_headers import Loop

#: What stands for a number of blocks or iterations that is not known; lanes of a warp.
_MANY = 32
#: Up to how much of it a number that is not known stands for.
_MULTIPLES = 1021
_SPLIT = frozenset({"/", "%", ">>", "&"})


def in_rows(
    index: Form, element: int, loops: Sequence[Loop], block: tuple[int, int, int] | None, limits: Limits
) -> bool:
    """Whether blocks, iterations, other rows of threads, or a share of a flat index go on where a lane is: one of them
    moves the address by a cache line at most, and all of its values by a sector at least; or lanes are rows of a
    triangle.

    `element` is the bytes of one element, `block` the block's extents where they are known.
    """
    if _steps_in_rows(index):
        return False
    for symbols, factor in index.terms:
        count = _values(symbols, loops, block)
        step = abs(factor) * element
        if count > 1 and step <= limits.cache_line_bytes and count * step >= SECTOR_BYTES:
            return True
    # One launch, block or iteration takes one element of each of a triangle's rows, and others those beside.
    goes = any(len(own) == 1 and own[0].kind in ("parameter", "block", "loop") for own, _ in index.terms)
    return goes and grows(index)


def divisors(index: Form) -> frozenset[Symbol]:
    """The parameters by which what goes along the lanes is divided, `n` in `a[i / n * pitch + i % n]`: extents."""
    return frozenset(
        inner
        for symbol in index.symbols
        if symbol.operation in ("/", "%") and symbol.operands[0].mentions("threadIdx.x")
        for inner in symbol.operands[1].symbols
        if inner.kind == "parameter"
    )


def multiples(index: Form) -> dict[str, int]:
    """What stands for how much of a number that is not known, by name: different multiples for those of `divisors` that
    are taken from one another, as `n` and `k` in `i % (n - k + 1)`, so that no row's length cancels."""
    signs = {
        s.operands[1]: {factor > 0 for symbols, factor in s.operands[1].terms if symbols}
        for s in index.symbols
        if s.operation in ("/", "%")
    }
    mixed = {s for by, found in signs.items() if len(found) > 1 for s in by.symbols}
    return {s.name: 1 + zlib.crc32(s.name.encode()) % _MULTIPLES for s in divisors(index) & mixed}


def _steps_in_rows(index: Form) -> bool:
    """Whether lanes are a remainder of a flat number, times a run-time step within rows of another length, through
    which loops go as through a window: `a[(i / n * step + u) * width + i % n * step + v]`."""
    steps = {
        tuple(s for s in symbols if s.kind == "parameter")
        for symbols, _ in index.terms
        for symbol in symbols
        if symbol.operation == "%" and symbol.operands[1].value is None and symbol.mentions("threadIdx.x")
    }
    rows = [
        {s for s in symbols if s.kind == "parameter"}
        for symbols, _ in index.terms
        if any(s.kind == "loop" for s in symbols)
    ]
    return (
        any(
            step and set(step) & divisors(index) == set() and any(row and not row & set(step) for row in rows)
            for step in steps
        )
        and set() in rows
    )


def grows(index: Form | None) -> bool:
    """Whether neighbouring lanes lie the further apart the higher they are, as rows of a triangle do."""
    forms = (index, *(o for s in index.symbols for o in s.operands)) if index is not None else ()
    return any(
        sum(s.mentions("threadIdx.x") for s in symbols) > 1 for form in forms for symbols, _ in form.terms
    )


def walks_record(index: Form, loops: Sequence[Loop], known: Mapping[str, int]) -> bool:
    """Whether each thread goes itself, element by element, through all that lies between it and the next lane, of which
    there is one at each place of a plane, and how much that is follows from no `known` symbol: a pixel's three colours
    more likely than a row of thousands."""
    apart = index.growth("threadIdx.x")
    if apart is None or apart.evaluate(known) is not None or not _is_in_plane(index, apart):
        return False
    return any(
        loop.bound == apart
        and loop.comparison in ("<", ">", "!=")
        and loop.step is not None
        and index.coefficient(loop.counter or f"{loop.variable}@{loop.offset}") == 1
        for loop in loops
    )


def _is_in_plane(index: Form, apart: Form) -> bool:
    """Whether blocks go on along the lanes, and across them by a run-time number of as many."""
    along, across = index.growth("blockIdx.x"), (index.growth("blockIdx.y"), index.growth("threadIdx.y"))
    within = [s for s in apart.symbols if s.kind == "parameter"]

    def has_all(form: Form | None, more: int) -> bool:
        """Whether a term has what keeps lanes apart, and `more` run-time numbers beside that."""
        return form is not None and any(
            set(within) <= set(symbols) and sum(s.kind == "parameter" for s in symbols) == len(within) + more
            for symbols, _ in form.terms
        )

    return bool(within) and has_all(along, 0) and any(has_all(form, 1) for form in across)


def _values(symbols: Monomial, loops: Sequence[Loop], block: tuple[int, int, int] | None) -> int:
    """Values that a product takes beside those of neighbouring lanes; 0 where that is not known of it."""
    moving = [s for s in symbols if s.name not in ("blockDim.y", "blockDim.z")]
    if len(moving) != 1 or moving[0].name == "threadIdx.x":
        return 0
    (symbol,) = moving
    if symbol.kind == "block":
        return _MANY
    # Rows of the block's threads that go on by its own extent leave nothing out between them.
    if len(symbols) > 1 and not (symbol.kind == "loop" and len(symbols) == 2):
        return 0
    if symbol.kind == "thread":
        return block["xyz".index(symbol.name[-1])] if block is not None else 0
    if symbol.kind == "loop":
        trips = [x.trips for x in loops if symbol.name in (x.counter, f"{x.variable}@{x.offset}")]
        return next((n for n in trips if n is not None), _MANY)
    return _MANY if _is_share(symbol) else 0


def _is_share(symbol: Symbol) -> bool:
    """Whether it is the row or the column that a thread's number falls on, the same for most lanes of a warp."""
    if symbol.operation not in _SPLIT:
        return False
    by = symbol.operands[1].value
    wide = by is None or (1 << by if symbol.operation == ">>" else abs(by)) >= _MANY
    inside = [s for operand in symbol.operands for s in operand.symbols]
    return wide and any(s.kind in ("thread", "block", "loop") for s in inside)
