# SPDX-License-Identifier: Apache-2.0
"""Variables in brackets that the grammar takes for types: `(k) * (n) + (i)`, as macros write their arguments, is a sum
of products to C++, and a cast of `*(n)` to a parser that does not know which names are types.

So are conversions at the beginning of brackets: `(unsigned(c) < 10)` is a comparison, and a cast to a function's type.
"""

from __future__ import annotations

import re

from warplens_tools.cuda.syntax.types import type_bytes

_BRACKETED = re.compile(r"(?<![\w\])>])\(([ \t]*[A-Za-z_]\w*[ \t]*)\)([ \t]*[-+*&](?![-+=*&]))?")
_DECLARED = re.compile(
    r"\b(?:int|unsigned|long|short|size_t|u?int\d+_t|float|double|bool|auto)\b[\s&]*([A-Za-z_]\w*)\s*(?=[,;=)\[])"
)
_CONVERTS = re.compile(rb"(\(\s*)(unsigned|signed)(?=\s*\((?!\s*[*&]))")
#: Types of one word for it, as long; the grammar reads conversions to these.
_ONE_WORD = {b"unsigned": b"uint32_t", b"signed": b"int   "}
_NO_OPERAND = re.compile(r"\b(?:if|while|for|switch|sizeof|alignof)\s*$")


def without_brackets(text: str) -> str:
    """The text, as long as it was, with such variables bare; types keep their brackets.

    A name is one of a variable where the text declares it with a type of the language's. In sums other names in lower
    case are, too; before `*` and `&`, which casts of pointers have as often, they are not. Where one is bare, so are
    all others that are declared: `(k * (n))` is a type, too.
    """
    if not any(found[2] for found in _BRACKETED.finditer(text)):
        return text
    declared = set(_DECLARED.findall(text))

    def bare(found: re.Match[str]) -> str:
        name, operator = found[1].strip(), (found[2] or "").strip()
        summed = operator in ("+", "-") and name[0].islower()
        is_type = type_bytes(name) is not None or name.endswith("_t")
        is_operand = _NO_OPERAND.search(text, max(0, found.start() - 16), found.start()) is None
        is_variable = name in declared or (summed and not is_type)
        return f" {found[1]} {found[2] or ''}" if is_variable and is_operand else found[0]

    return _BRACKETED.sub(bare, text)


def with_conversions(code: bytes) -> bytes:
    """The code, as long as it was, with a conversion at the beginning of brackets to a type that the grammar reads."""
    return _CONVERTS.sub(lambda found: found[1] + _ONE_WORD[found[2]], code)
