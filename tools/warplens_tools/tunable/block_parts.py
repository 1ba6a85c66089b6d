# SPDX-License-Identifier: Apache-2.0
"""Whole halves and whole warps of a block whose length is whatever a run says, where the kernel needs none.

`for (half = blockDim.x / 2; half; half /= 2)` adds up all of a block of 256 threads, and leaves some of 192 out;
`blockDim.x / 32` warps are all of 128 threads, and three of 100, whose last warp has four lanes. Told where the length
of a block is a number that the run gives, which the host rounds nowhere and asks nothing of, and the edit asks nothing
of what is left, either.
"""

from __future__ import annotations

import re

from warplens_tools.tunable.both import launches_of_both
from warplens_tools.tunable.conditions import DeviceCode
from warplens_tools.tunable.run_lengths import lengths_of
from warplens_tools.tunable.source import File, Site

_LENGTH = r"blockDim\.x"
#: White space that keeps no words apart.
_SPACE = re.compile(r"\s+(?!\w)|(?<!\w)\s+")
#: Another name of it: `const int threads = static_cast<int>(blockDim.x)`.
_ALIAS = re.compile(rf"(\w+)=(?:static_cast<\w+>|\(?\w+\)?)?\(?{_LENGTH}\)?[;,]")
#: What host code makes of a number whose parts it minds: rounded, asked for its rest, doubled, worked out elsewhere.
_MINDED = re.compile(r"[%~]|<<|>>|/|\bpow|(?<!&)&(?!&)")
#: Every lane of a warp taken to be there.
_FULL = re.compile(
    r"__(?:shfl(?:_\w+)?|reduce_\w+|ballot|any|all)_sync\((?:0x[fF]{8}[uUlL]*|~0[uUlL]*|-1|\w*(?:FULL|Full|full|ALL|kAll)\w*),"
)
_LANES = re.compile(r"__\w+_sync\(|__activemask|tiled_partition|coalesced_threads")
#: Loops that double what they step by, up to a block.
_DOUBLES = r"(\w+)<(?:{0});\1(?:\*=2|<<=1|=2\*\1|=\1\*2|\+=\1)\)"


def why_parts_of_block(before: File, after: File) -> str:
    """Which kernel takes any block for one of whole parts in an edit, in words; "" for none."""
    for kernel, _, one, other in launches_of_both(before, after):
        if not (is_of_any_length(before, one) and is_of_any_length(after, other)):
            continue
        old, new = (_code(file, kernel.qualified_name) for file in (before, after))
        if old == new or _halves(old):
            continue
        said = _halves(new) or (
            "lanes of whole warps" if _FULL.search(new) and not _LANES.search(old) else ""
        )
        if said and not _asks_for_rest(new):
            return f"the edit takes {said} for all of a block of {kernel.name}, which the run makes as long as it likes"
    return ""


def is_of_any_length(file: File, site: Site) -> bool:
    """Whether the length of a launch's blocks, along x alone, is a number of the run's that nothing rounds."""
    node = site.written[1]
    if node is None or site.block is None or len(site.block) != 1 or not lengths_of(file, node):
        return False
    behind = file.definitions(node)
    if any(_MINDED.search(text) for text in (file.tree.code_of(node), *behind.values())):
        return False
    names = "|".join(re.escape(name) for name in behind)
    # its rest, its bits, its address, or steps that it is worked out by
    asked = re.compile(
        rf"\b(?:{names})\s*(?:%|&(?!&)|[*/]=|<<=|>>=|&=)|(?<![&\w\])])\s*&\s*(?:{names})\b(?!\s*\[)"
    )
    return asked.search(file.code) is None


def _code(file: File, kernel: str) -> str:
    code = DeviceCode(file, kernel)
    return " ".join(_SPACE.sub("", code.tree.code_of(function.body)) for function in code.functions)


def _names(code: str) -> str:
    return "|".join([_LENGTH, *(rf"\b{found[1]}\b" for found in _ALIAS.finditer(code))])


def _halves(code: str) -> str:
    """What of a block's length is rounded down, or doubled past it."""
    names = _names(code)
    if (part := re.search(rf"(?:{names})\)?(?:/|>>)\(?(\w+)", code)) is not None:
        return "whole parts" if part[1] not in ("2", "2u", "1") else "halves"
    for found in re.finditer(_DOUBLES.format(names), code):
        step = re.escape(found[1])
        if re.search(rf"[+^]{step}\]", code) and not re.search(rf"\+{step}\)?<", code):
            return "doubled steps"
    return ""


def _asks_for_rest(code: str) -> bool:
    names = _names(code)
    rest = rf"(?:{names})(?:\)?(?:%|&(?!&)|\+\d+\)?\)?(?:/|>>))|-\(?(?:{names})(?:/|>>))"
    return re.search(rest, code) is not None
