# SPDX-License-Identifier: Apache-2.0
"""Single numbers that a kernel is passed by pointer and reads again in loops: `for (int i = 0; i < *n; ++i)`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.model import Kernel


def passed_numbers(kernel: Kernel, body: str, accesses: Sequence[ArrayAccess]) -> tuple[ArrayAccess, ...]:
    """The first access within a loop of each pointer that the kernel, whose body that is, does nothing with but read
    its first element; in text order."""
    found = []
    for parameter in kernel.parameters:
        if not parameter.pointer or "*" in parameter.element_type:
            continue
        own = [a for a in accesses if a.name == parameter.name]
        named = len(re.findall(rf"\b{re.escape(parameter.name)}\b", body))
        only = all(a.reads and not a.writes and not a.member and _is_first(a) for a in own)
        looped = [a for a in own if a.loops]
        if looped and only and named == len(own):
            found.append(looped[0])
    return tuple(sorted(found, key=lambda a: a.span))


def _is_first(access: ArrayAccess) -> bool:
    """Whether it is the first element, through nothing that moves the pointer or reads it as a wider type."""
    index = access.index
    declared = getattr(access.declared, "element_type", "")
    return (
        access.indices == ("0",)
        and index is not None
        and index.value == 0
        and access.element_type == declared
    )
