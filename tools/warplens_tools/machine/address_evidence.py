# SPDX-License-Identifier: Apache-2.0
"""What SASS says of the addresses of one source access, for where the source alone does not tell.

An instruction belongs to the line that its inline chain names. Where several accesses of one kind share a
line, what is told counts only if it is the same for all of the line's instructions of that kind, and of the
width of the access: another one may have been moved elsewhere.
"""

from __future__ import annotations

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.evidence import Instruction
from warplens_tools.kernel_code import KernelCode
from warplens_tools.sass.addresses import AddressPattern, Space
from warplens_tools.sass.pipes import is_load, is_store


def pattern_of(code: KernelCode, access: ArrayAccess, space: Space) -> AddressPattern | None:
    """The pattern of all instructions that the access may have become; None where it is not told."""
    if not code.sass:
        return None
    found = _patterns(code, access, space)
    told = {(p.width, p.sectors, p.conflict, p.passes) for p in found}
    if len(told) != 1 or (found[0].sectors is None and found[0].conflict is None):
        return None
    alone = found[0].width == code.element_bytes(access.element_type) or _is_alone(code, access)
    return found[0] if alone else None


def is_of_few(code: KernelCode, access: ArrayAccess) -> bool:
    """Whether threadIdx keeps lanes from all that the access may have become, none of it in a loop."""
    found = _patterns(code, access, "global")
    return bool(found) and all(p.part and not code.sass.flow.depths[p.index] for p in found)


def _patterns(code: KernelCode, access: ArrayAccess, space: Space) -> list[AddressPattern]:
    """Those of all instructions that the access may have become."""
    sass = code.sass
    return [
        p
        for p in sass.patterns
        if p.space == space
        and sass.lines[p.index] == access.span.line
        and _may_be(access, sass.instructions[p.index])
    ]


def _is_alone(code: KernelCode, access: ArrayAccess) -> bool:
    """Whether no other access of its line reads where it reads, or writes where it writes."""
    return not any(
        other.span.line == access.span.line
        and other.span != access.span
        and other.space in (access.space, "unknown")
        and ((other.reads and access.reads) or (other.writes and access.writes))
        for other in code.accesses
    )


def _may_be(access: ArrayAccess, instruction: Instruction) -> bool:
    if access.atomic:
        return not is_load(instruction) and not is_store(instruction)
    return (is_load(instruction) and access.reads) or (is_store(instruction) and access.writes)
