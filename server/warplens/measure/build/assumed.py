# SPDX-License-Identifier: Apache-2.0
"""What an edit tells the compiler to take for granted: conditions that always hold, places that nothing reaches.

Code is compiled as if it were so. Where it is not, on other data, anything may happen, and on the data that were
compared nothing shows it. Read is the edited file's own text once its macros are expanded: what headers promise of
themselves is not the edit's.
"""

from __future__ import annotations

import re
from collections import Counter

from warplens.measure.build.device_text import device_text
from warplens_tools.evidence import BinaryEvidence

#: What is told, by what follows in brackets: nvcc's and MSVC's own, and the attribute of C++23 in its spellings.
_TOLD = re.compile(r"\b(?:__builtin_assume|__assume|__assume__|assume)\s*\(")
#: Places that nothing reaches: said of one, or of what follows a call.
_NOT_REACHED = re.compile(
    r"\b(?:__builtin_unreachable|unreachable)\s*\(|\b(?:noreturn|_Noreturn|__noreturn__)\b"
)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
#: No file of the text's includes is its own.
_ALL_OTHERS = ("",)


def assumes_more(baseline: BinaryEvidence, edited: BinaryEvidence, source: str) -> str:
    """What a unit tells the compiler that its baseline does not, in words; "" for nothing.

    Args:
        baseline, edited: of compilations that kept their texts.
        source: the path of the edited file.
    """
    old, new = (device_text(one, source, _ALL_OTHERS).text for one in (baseline, edited))
    return "" if old == new else tells_more(old, new)


def tells_more(before: str, after: str) -> str:
    """The same of two texts without macros."""
    old, new = (_STRING.sub('""', text) for text in (before, after))
    # what the program promises itself may be told where it helps
    if told := _told(new) - _told(old):
        return f"the edit tells the compiler that {next(iter(told))} always holds, which nothing says of other data"
    if _not_reached(new) - _not_reached(old):
        return "the edit tells the compiler that a place is never reached, which nothing says of other data"
    return ""


def _told(text: str) -> Counter[str]:
    found = ("".join(_bracketed(text, match.end()).split()) for match in _TOLD.finditer(text))
    return Counter(dict.fromkeys(found, 1))


def _not_reached(text: str) -> Counter[str]:
    return Counter(match.group().rstrip(" (") for match in _NOT_REACHED.finditer(text))


def _bracketed(text: str, start: int) -> str:
    """What stands from there to the bracket that closes."""
    depth = 1
    for at in range(start, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return text[start:at]
    return text[start:]
