# SPDX-License-Identifier: Apache-2.0
"""What an edit writes as a number for this run alone, where the original follows one of the run's own lengths.

A grid of `(n + 255) / 256` blocks covers any `n`; 36864 blocks cover this run's. Asked of every launch: whatever run's
number a kernel is given and its grid, its block or a loop of the kernel follows, one of the three follows in the edit
too. Where it is the loop, the grid may be any. So for what is allocated, for dynamic shared memory that a loop walks up
to such a number, and for arrays of a fixed size that it walks in their place. Sizes that no kernel is given, as a
block's, are the edit's own; so is everything where the text does not say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.tunable.both import twin_of
from warplens_tools.tunable.covered import Walked
from warplens_tools.tunable.grid_rest import why_rest_left
from warplens_tools.tunable.grid_rule import most_threads
from warplens_tools.tunable.other_axes import why_along_less
from warplens_tools.tunable.run_lengths import lengths_of
from warplens_tools.tunable.shares import shares_of
from warplens_tools.tunable.source import File, Site

#: Threads of the largest block that any card takes (CUDA programming guide, technical specifications).
_LARGEST = 1024
_ALLOCATES = re.compile(r"cudaMalloc(?:Async|Managed)?")


class _Launch(NamedTuple):
    """One launch, in the run's own numbers."""

    kernel: Kernel
    #: By parameter: its name and the numbers behind what is passed for it.
    given: tuple[tuple[str, frozenset[str]], ...]
    grid: frozenset[str]
    block: frozenset[str]
    shared: frozenset[str]
    walked: Walked
    #: Threads of its block, at most; None where the text sets no bound.
    most_threads: int | None
    #: Parameters that only say how the work is shared.
    shares: frozenset[str]

    @property
    def lengths(self) -> list[str]:
        """All that the kernel is given, but for what only says how the work is shared."""
        found = frozenset[str]().union(*(of for _, of in self.given))
        return sorted(length for length in found if not self.shares.issuperset(self.parameters(length)))

    def parameters(self, length: str) -> list[str]:
        return [name for name, of in self.given if length in of]

    def covers(self, length: str) -> bool:
        """Whether blocks, threads or a loop follow a number of the run."""
        return length in self.grid | self.block or self.walked.goes_up_to(self.parameters(length))


def why_not_followed(before: File, after: File) -> str:
    """What of an edited file holds for this run's lengths alone, in words; "" if nothing is known to."""
    try:
        return _why_not(before, after)
    except RecursionError:
        return "an expression is nested too deeply to be read"


def _why_not(before: File, after: File) -> str:
    pairs = _pairs(before, after)
    for old, new in pairs:
        if why := _launch_fixed(old, new):
            return why
    # a kernel that loops up to what it is given does so whatever a program makes of it
    for old, new in _pairs(before, after, named=True):
        for length in old.lengths:
            if length not in old.grid | old.block and (why := _uncovered(old, new, length)):
                return why
    # what is kept for each block goes with the grid
    blocks = frozenset[str]().union(*(old.grid - new.grid for old, new in pairs))
    why = _allocation_fixed(before, after, blocks) or why_rest_left(before, after)
    return why or why_along_less(before, after)


def _pairs(before: File, after: File, *, named: bool = False) -> list[tuple[_Launch, _Launch]]:
    found = []
    for kernel in before.model.kernels:
        twin = twin_of(kernel, before, after)
        if twin is None:
            continue
        old, new = before.launches_of(kernel), after.launches_of(twin)
        if len(old) != len(new) or not old:
            continue
        walked = Walked(before, kernel), Walked(after, twin)
        found += [
            (_launch(before, kernel, one, walked[0], named), _launch(after, twin, other, walked[1], named))
            for one, other in zip(old, new, strict=True)
        ]
    return found


def _launch(file: File, kernel: Kernel, site: Site, walked: Walked, named: bool) -> _Launch:
    given = tuple(
        (parameter.name, lengths_of(file, node, named=named))
        for parameter, node in zip(kernel.parameters, site.arguments, strict=False)
        if not parameter.pointer
    )
    grid, block, shared = (lengths_of(file, node, named=named) for node in site.written)
    shares = shares_of(file, kernel, site)
    return _Launch(kernel, given, grid, block, shared, walked, most_threads(file, site), shares)


def _launch_fixed(old: _Launch, new: _Launch) -> str:
    for length in old.lengths:
        if why := _uncovered(old, new, length) or _arrays_fixed(old, new, length):
            return why
    bound, known = new.kernel.launch_bounds, old.kernel.launch_bounds
    most = bound.max_threads_value if bound is not None else None
    largest = _LARGEST if new.most_threads is None else new.most_threads
    if bound is not None and known is None and new.block and old.block and (most is None or most < largest):
        said = ", ".join(sorted(new.block))
        return f"the edit bounds {new.kernel.name} to {bound.max_threads} threads, its block follows {said}"
    return ""


def _uncovered(old: _Launch, new: _Launch, length: str) -> str:
    if not new.parameters(length) or not old.covers(length) or new.covers(length):
        return ""
    name = new.kernel.name
    if length not in old.grid | old.block:
        return (
            f"the original loops up to {length}, in the edit neither a loop nor the grid of {name} follows it"
        )
    which = "grid" if length in old.grid else "block"
    return f"the original's {which} follows {length}, the edit's does not, nor does a loop of {name}"


def _arrays_fixed(old: _Launch, new: _Launch, length: str) -> str:
    walked = new.walked.arrays_up_to(new.parameters(length))
    arrays = {array.name: array for array in new.kernel.arrays if array.name in walked}
    dynamic = next((array for array in arrays.values() if array.dynamic), None)
    if dynamic is not None and length in old.shared and length not in new.shared | new.block:
        return f"the original's shared memory follows {length}, the edit's does not and walks {dynamic.name} up to it"
    rings = new.walked.rings_up_to(new.parameters(length))
    known = set(old.walked.rings_up_to(old.parameters(length)).values())
    for name, index in rings.items():
        if index not in known and not old.walked.names(index):
            return f"the edit reads {name}[{index}] up to {length}: what it holds of it begins anew there"
    fixed = next((a for a in arrays.values() if not a.dynamic and a.sizes and None not in a.sizes), None)
    if fixed is None:
        return ""
    before = {array.name for array in old.kernel.arrays if not array.dynamic and None not in array.sizes}
    if before & set(old.walked.arrays_up_to(old.parameters(length))):
        return ""
    return f"the edit walks {fixed.name}, which has {' × '.join(fixed.extents)} elements, up to {length}"


def _allocation_fixed(before: File, after: File, blocks: frozenset[str]) -> str:
    old, new = _allocations(before), _allocations(after)
    if len(old) != len(new):
        return ""
    for (name, was), (same, now) in zip(old, new, strict=True):
        lost = lengths_of(before, was) - lengths_of(after, now) - blocks
        if name == same and lost:
            return f"the original allocates {name} by {', '.join(sorted(lost))}, the edit does not"
    return ""


def _allocations(file: File) -> Sequence[tuple[str, Node]]:
    """What is allocated on the device, with how much, in text order."""
    return file.tree.remembered("device allocations", lambda: _allocated(file))


def _allocated(file: File) -> Sequence[tuple[str, Node]]:
    found = []
    for node in walk(file.tree.root):
        function = node.child_by_field_name("function") if node.type == "call_expression" else None
        given = node.child_by_field_name("arguments")
        if function is None or given is None or given.named_child_count < 2:
            continue
        if _ALLOCATES.fullmatch(file.tree.code_of(function).split("<")[0].strip()):
            what, size = given.named_children[:2]
            found.append((file.tree.code_of(what).rpartition("&")[2].strip(), size))
    return found
