# SPDX-License-Identifier: Apache-2.0
"""Stencils without a loop: reads of one array at a thread's own element and at its neighbours', which the threads there
read too."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.values.forms import Form, subtract

#: Elements from which reads are a stencil over rows, or along one row, whose sectors one request of the L1 holds.
FEWEST, IN_ROW = 4, 9
#: How far apart neighbours are at most, in elements of an axis.
REACH = 16
#: Reads of an array that are compared.
_MOST = 48
_AXES = tuple(f"{of}.{axis}" for axis in "yz" for of in ("threadIdx", "blockIdx"))


class Stencil(msgspec.Struct, frozen=True):
    """Reads of one array around the thread's own element."""

    #: The first of them.
    access: ArrayAccess
    #: Different elements.
    elements: int


def stencils(accesses: Sequence[ArrayAccess]) -> tuple[Stencil, ...]:
    """Those of a kernel, the one with most elements first; none of kernels that use shared memory."""
    if any(a.space == "shared" for a in accesses):
        return ()
    reads: dict[str, list[ArrayAccess]] = {}
    for a in accesses:
        if a.space == "global" and a.reads and not a.atomic and not a.few and _is_beside(a):
            reads.setdefault(a.name, []).append(a)
    found = [s for every in reads.values() if (s := _around(every[:_MOST])) is not None]
    return tuple(sorted(found, key=lambda s: (-s.elements, s.access.span)))


def _is_beside(access: ArrayAccess) -> bool:
    """Whether neighbouring lanes read neighbouring elements."""
    growth = access.index.growth("threadIdx.x") if access.index is not None else None
    return growth is not None and growth.value == 1


def _around(reads: Sequence[ArrayAccess]) -> Stencil | None:
    """The reads with most others at a neighbour's place."""
    around = max((_neighbours(r, reads) for r in reads), key=len)
    first = next(iter(around), None)
    apart = [subtract(e, first) for e in around if first is not None]
    in_row = all(a is not None and a.value is not None for a in apart)
    if len(around) + 1 < (IN_ROW if in_row else FEWEST):
        return None
    return Stencil(min(reads, key=lambda r: r.span), len(around) + 1)


def _neighbours(own: ArrayAccess, reads: Sequence[ArrayAccess]) -> set[Form]:
    """Indices of the other reads at elements of threads near by."""
    return {
        r.index
        for r in reads
        if r.index is not None
        and own.index is not None
        and r.index != own.index
        and _is_near(own.index, r.index)
    }


def _is_near(own: Form, other: Form) -> bool:
    """Whether an element is a few rows, columns or planes of the threads' away."""
    apart = subtract(other, own)
    for axis in _AXES:
        growth = own.growth(axis)
        if apart is None or growth is None or not growth.terms or growth.value is not None:
            continue
        rows = _multiple(apart, growth)
        if rows:
            step = Form(tuple((symbols, rows * factor) for symbols, factor in growth.terms))
            apart = subtract(apart, step)
    return apart is not None and apart.value is not None and abs(apart.value) <= REACH


def _multiple(apart: Form, growth: Form) -> int:
    """How many times a growth is in a distance; 0 where it is not, or too often."""
    factors = dict(apart.terms)
    symbols, each = growth.terms[0]
    many, left = divmod(factors.get(symbols, 0), each)
    return many if not left and abs(many) <= REACH else 0
