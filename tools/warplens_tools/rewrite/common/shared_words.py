# SPDX-License-Identifier: Apache-2.0
"""Sums of 64 bits in shared memory, as words of 32: a word's atomic addition is one instruction there, a wide one's a
loop that compares and exchanges.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.common.integer_kinds import kind_of
from warplens_tools.rewrite.common.reading import View, field, unwrapped

WIDE = frozenset({"unsigned long long", "unsigned long long int"})
WORD_TYPE = "unsigned int"
_WORD_BYTES = 4


def word_of(view: View, value: Node) -> str:
    """What is added, as a word without a sign, where it surely is one; "" elsewhere."""
    node = unwrapped(value)
    while node.type == "cast_expression" and view.code(field(node, "type")).strip() in WIDE:
        node = unwrapped(field(node, "value"))
    known = view.value(node)
    if known is not None:
        return f"{known}u" if 0 <= known < 1 << 32 else ""
    is_element = node.type in ("subscript_expression", "pointer_expression")
    kind = (
        view.concrete(view.element(node).replace("const", "").strip()) if is_element else kind_of(view, node)
    )
    integer = integer_type(kind) if kind else None
    is_word = integer is not None and not integer.signed and integer.bytes <= _WORD_BYTES
    return view.written(node) if is_word and view.is_plain_enough(node) else ""


def added(place: str, carries: str, word: str, name: str) -> str:
    """The statements that add a word to a sum of two, the second of which counts the overflows of the first."""
    if re.fullmatch(r"\w+", word):
        return f"if (atomicAdd(&{place}, {word}) > ~{word}) atomicAdd(&{carries}, 1u);"
    return (
        f"const unsigned int {name} = {word}; "
        f"if (atomicAdd(&{place}, {name}) > ~{name}) atomicAdd(&{carries}, 1u);"
    )


def whole(place: str, carries: str) -> str:
    """The sum of both."""
    return f"((unsigned long long){carries} << 32) + {place}"
