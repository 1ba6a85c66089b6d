# SPDX-License-Identifier: Apache-2.0
"""What SASS says of the addresses of one source access, for where the source alone does not tell.

An instruction belongs to the line that its inline chain names. Where several accesses of one kind share a
line, what is told counts only if it is the same for all of the line's instructions of that kind, and of the
width of the access: another one may have been moved elsewhere.
"""

from __future__ import annotations

import functools

from warplens_tools.arch.gpu import Limits
from warplens_tools.cuda.facts.accesses import ArrayAccess, accesses
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3
from warplens_tools.evidence import CompiledKernel, Instruction
from warplens_tools.instances import view_element_bytes
from warplens_tools.launches import block_extents
from warplens_tools.sass.addresses import AddressPattern, Space, address_patterns
from warplens_tools.sass.attribution import kernel_line
from warplens_tools.sass.pipes import is_load, is_store
from warplens_tools.sass.warps import Block
from warplens_tools.view import KernelView


def pattern_of(view: KernelView, access: ArrayAccess, space: Space) -> AddressPattern | None:
    """The pattern of all instructions that the access may have become; None where it is not told."""
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        return None
    found = [
        p
        for p in patterns_of(view, compiled)
        if p.space == space
        and kernel_line(compiled.instructions[p.index], view.model.path, view.kernel) == access.span.line
        and _may_be(access, compiled.instructions[p.index])
    ]
    told = {(p.width, p.sectors, p.conflict, p.passes) for p in found}
    if len(told) != 1 or (found[0].sectors is None and found[0].conflict is None):
        return None
    alone = _is_alone(view, access)
    element = view_element_bytes(view, access.element_type)
    return found[0] if alone or found[0].width == element else None


def _is_alone(view: KernelView, access: ArrayAccess) -> bool:
    """Whether no other access of its line reads where it reads, or writes where it writes."""
    block = block_extents(view.kernel, view.model) or UNKNOWN_DIM3
    return not any(
        other.span.line == access.span.line
        and other.span != access.span
        and other.space in (access.space, "unknown")
        and ((other.reads and access.reads) or (other.writes and access.writes))
        for other in accesses(parse_tree(view.text), view.kernel, block)
    )


def patterns_of(view: KernelView, compiled: CompiledKernel) -> tuple[AddressPattern, ...]:
    """`sass.addresses.address_patterns` of a compiled kernel as the file launches it, worked out once."""
    return _patterns(_Kept(compiled), block_extents(view.kernel, view.model), view.gpu.limits)


def _may_be(access: ArrayAccess, instruction: Instruction) -> bool:
    if access.atomic:
        return not is_load(instruction) and not is_store(instruction)
    return (is_load(instruction) and access.reads) or (is_store(instruction) and access.writes)


class _Kept:
    """A compiled kernel as a cache key: by identity, as comparing its code takes longer than the answer."""

    def __init__(self, compiled: CompiledKernel) -> None:
        self.compiled = compiled

    def __hash__(self) -> int:
        return id(self.compiled)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Kept) and self.compiled is other.compiled


@functools.lru_cache(maxsize=16)
def _patterns(kept: _Kept, block: Block | None, limits: Limits) -> tuple[AddressPattern, ...]:
    return address_patterns(kept.compiled, block, limits)
