# SPDX-License-Identifier: Apache-2.0
"""Blocks that an edit takes for as large as this program's, where the kernel halves whatever block it is given.

`for (half = blockDim.x / 2; ...)` holds for 64 threads and for 256; a second step over eight warps for 256 alone, and
of 64 it reads what nobody wrote. Told is a kernel that asks for no part of its block's size any more, nor for the size
but to number its threads, in launches whose block the edit leaves as it was: who says another size goes by that.
"""

from __future__ import annotations

import re

from warplens_tools.tunable.both import launches_of_both
from warplens_tools.tunable.conditions import DeviceCode
from warplens_tools.tunable.source import File, Site

_SIZE = r"blockDim\s*\.\s*([xyz])"
_ONE = re.compile(_SIZE)
_PART = re.compile(rf"{_SIZE}\s*\)?\s*(?:/|>>)")
#: What numbers threads, or has them take turns.
_PLACES = r"(?:block|grid)(?:Idx|Dim)"
_NUMBERS = re.compile(
    rf"{_PLACES}\s*\.\s*[xyz]\s*\*\s*{_SIZE}|\+=\s*{_SIZE}(?!\s*(?:/|>>))|{_SIZE}\s*\*\s*{_PLACES}\b"
)
#: Other names for it.
_ELSEWHERE = re.compile(r"\bcooperative_groups\b|\bcg\s*::|\bcub\s*::|\bnum_threads\b|%ntid")


def why_block_lost(before: File, after: File) -> str:
    """Which kernel takes its block for as large as this program's in an edit, in words; "" for none."""
    for kernel, _, one, other in launches_of_both(before, after):
        if _block(before, one) != _block(after, other):
            continue
        old, new = (_code(file, kernel.qualified_name) for file in (before, after))
        # the warps of a whole grid are no part of a block
        halved = {found[1] for found in _PART.finditer(_NUMBERS.sub(" ", old))}
        if not halved or _ELSEWHERE.search(new):
            continue
        left = set(_ONE.findall(_NUMBERS.sub(" ", new)))
        if halved - left:
            return (
                f"{kernel.name} halves the block that it is given along {min(halved - left)}, the edit asks for no "
                "part of it and leaves the launch as it is"
            )
    return ""


def _code(file: File, kernel: str) -> str:
    code = DeviceCode(file, kernel)
    return " ".join(code.tree.code_of(function.body) for function in code.functions)


def _block(file: File, site: Site) -> str:
    node = site.written[1]
    return "".join(file.tree.code_of(node).split()) if node is not None else ""
