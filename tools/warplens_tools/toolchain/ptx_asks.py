# SPDX-License-Identifier: Apache-2.0
"""What a kernel asks of its inputs, by its PTX: integers that it compares with, and pointers that may be null.

A value that only one comparison tells from its neighbours, a wildcard or a length that means "all", is met by no input
that is drawn at random.
"""

from __future__ import annotations

import functools
import re

import msgspec

#: Of more constants than that the smallest are taken.
_MOST = 24
_LARGEST = 1 << 31
_COMPARISON = re.compile(r"\bsetp\.(\w+)(?:\.\w+)*?\.[sub](8|16|32|64)\s+([^;]+);")
_ADDED = re.compile(r"\badd\.s(?:16|32|64)\s+%\w+,\s*%\w+,\s*(-\d+);")
_LOADED = r"\bld\.param\.\w?64\s+(%\w+),\s*\[{kernel}_param_(\d+)\];"


class Asked(msgspec.Struct, frozen=True):
    """Integers that are compared with, and their neighbours; and the parameters that are compared with null."""

    constants: tuple[int, ...] = ()
    optional: frozenset[int] = frozenset()


@functools.lru_cache(maxsize=256)
def asked(ptx: str, kernel: str) -> Asked:
    """Of a kernel by its mangled name; nothing where the PTX does not have it."""
    head = re.search(rf"\.entry\s+{re.escape(kernel)}\b", ptx)
    if head is None:
        return Asked()
    end = ptx.find(".entry", head.end())
    body = ptx[head.end() : end if end > 0 else None]
    loaded = dict(re.findall(_LOADED.format(kernel=re.escape(kernel)), body))
    added = set(_ADDED.findall(body))
    constants: set[int] = set()
    optional: set[int] = set()
    for kind, width, operands in _COMPARISON.findall(body):
        words = [word.strip() for word in operands.split(",")][1:]
        numbers = [int(word) for word in words if re.fullmatch(r"-?\d+", word)]
        for number in numbers:
            constants |= {number} if kind in ("eq", "ne") else {number - 1, number, number + 1}
        if width == "64" and 0 in numbers:
            optional |= {int(loaded[word]) for word in words if word in loaded}
    lengths = [number for number in constants if 8 < number < 32]
    for low in (-int(number) for number in added):
        # a range is asked for by taking its beginning off: letters, digits
        if 1 < low < 256:
            constants |= {low, *(low + number for number in lengths)}
    near = sorted((c for c in constants if abs(c) < _LARGEST), key=lambda c: (abs(c), c))
    return Asked(tuple(near[:_MOST]), frozenset(optional))
