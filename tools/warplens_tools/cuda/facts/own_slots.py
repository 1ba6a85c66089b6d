# SPDX-License-Identifier: Apache-2.0
"""Arrays of shared memory of which each thread uses elements of its own alone: no other thread of the block reads or
writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from warplens_tools.cuda.facts.accesses import ArrayAccess, accesses, escaping
from warplens_tools.cuda.model import ArrayDeclaration, Kernel
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3
from warplens_tools.cuda.values.forms import Form, subtract
from warplens_tools.cuda.values.kernel_tree import kernel_tree

#: Elements of a thread's own up to which registers may hold them.
MOST = 32
_AXES = ("x", "y", "z")


class OwnSlots(msgspec.Struct, frozen=True):
    """One such array."""

    array: ArrayDeclaration
    #: In text order.
    accesses: tuple[ArrayAccess, ...]
    #: Neighbouring elements of each thread.
    each: int


def own_slots(tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3) -> tuple[OwnSlots, ...]:
    """Those of the kernel, in text order of their declarations."""
    expanded = kernel_tree(tree, kernel)
    shared = [a for a in kernel.arrays if a.space == "shared"]
    if expanded is None or not shared:
        return ()
    code, handed = expanded.tree.code_of(expanded.function.body), set(escaping(tree, kernel))
    every = [a for a in accesses(tree, kernel, block) if a.space in ("shared", "unknown")]
    found = []
    for array in shared:
        own = tuple(a for a in every if a.declared == array)
        # As many places as the text names it, but for its declaration: each is an access.
        named = len(re.findall(rf"\b{re.escape(array.name)}\b", code)) - 1
        both = any(a.reads for a in own) and any(a.writes for a in own)
        if not both or named != len(own) or array.name in handed or any(a.atomic for a in own):
            continue
        each = _each(own, _extents(code, block))
        if each is not None:
            found.append(OwnSlots(array, own, each))
    return tuple(found)


def _extents(code: str, block: Dim3) -> dict[str, int | None]:
    """The axes along which the block has more than one thread, as far as is known, with how many."""
    extents = dict(zip(_AXES, block, strict=True))
    return {
        a: n
        for a, n in extents.items()
        if n != 1 and (n is not None or re.search(rf"threadIdx\s*\.\s*{a}\b", code))
    }


def _each(own: Sequence[ArrayAccess], extents: dict[str, int | None]) -> int | None:
    """How many neighbouring elements a thread has to itself; None where others may come to them."""
    indices = [a.index for a in own if a.index is not None]
    if len(indices) < len(own) or not extents:
        return None
    first = indices[0]
    apart = [subtract(i, first) for i in indices]
    offsets = [d.value for d in apart if d is not None and d.value is not None]
    width = _width(first, extents)
    if len(offsets) < len(indices) or width is None:
        return None
    used = max(offsets) - min(offsets) + 1
    return used if used <= min(width, MOST) else None


def _width(index: Form, extents: dict[str, int | None]) -> int | None:
    """The least distance of two threads' elements; None where two may meet, or where anything but the threads moves an
    element."""
    if any(s.kind not in ("thread", "block size", "parameter") for s in index.symbols):
        return None
    steps = {a: index.growth(f"threadIdx.{a}") for a in extents}
    if any(step is None or not step.terms for step in steps.values()):
        return None
    numbers = sorted(abs(s.value) for s in steps.values() if s is not None and s.value is not None)
    least = numbers[0] if numbers else None
    if least is None or len(set(numbers)) < len(numbers):
        return None
    reach = least
    for axis, step in sorted(steps.items(), key=lambda kept: _size(kept[1])):
        size = _size(step)
        if size < reach:
            return None
        extent = extents[axis]
        # A row that is as long as the text says, or as the block is wide.
        reach = size * extent if extent is not None else size + 1
    return least


def _size(step: Form | None) -> int:
    """How far a thread is from the next along an axis; a length of the launch is longer than any number."""
    value = step.value if step is not None else None
    return abs(value) if value is not None else 2**31
