# SPDX-License-Identifier: Apache-2.0
"""Documentation comments: of a definition, and the brief of a file."""

from __future__ import annotations

import re

from tree_sitter import Node

_LIMIT = 1600
_MARKUP = re.compile(r"^\s*(?:/\*[*!]*<?|\*+/|//[/!]*<?|\*)[ \t]?|\*+/\s*$", re.M)
_RULE = re.compile(r"^\s*[/*=\-#~+ ]{6,}\s*$", re.M)
_COMMAND = re.compile(r"[\\@](?:file|brief|tparam|param(?:\[\w+\])?|return|returns|note|details|c|p)\b ?")
_LICENCE = re.compile(r"Copyright \(c\)|SPDX-License|Redistribution and use|without specific prior", re.I)
#: Where a file's own text begins: comments from here on speak of a part, not of the file.
_FIRST_CODE = re.compile(
    r"^[ \t]*(?:template|struct|class|enum|static|inline|constexpr|void|int|__global__|typedef"
    r"|using(?! namespace)|CUT\w+_\w+)\b",
    re.M,
)
_BLOCK = re.compile(r"/\*.*?\*/|(?:^[ \t]*//[^\n]*\n)+", re.S | re.M)


def clean(comment: str) -> str:
    """The words of a comment without its markup."""
    text = _COMMAND.sub("", _MARKUP.sub("", _RULE.sub("", comment)))
    text = re.sub(r"[ \t]+\n", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def doc_before(node: Node, source: bytes) -> str:
    """The comment that ends on the line above a node, with those directly above it."""
    parts: list[str] = []
    line, before = node.start_point[0], node.prev_sibling
    while before is not None and before.type == "comment" and line - _last_row(before) <= 1:
        parts.append(source[before.start_byte : before.end_byte].decode("utf-8", "replace"))
        line, before = before.start_point[0], before.prev_sibling
        if len(parts) > 60:
            break
    text = clean("\n".join(reversed(parts)))
    return "" if _LICENCE.search(text) else text[:_LIMIT]


def _last_row(node: Node) -> int:
    row, column = node.end_point
    return row if column else row - 1


def brief(source: bytes) -> str:
    """The first comment of a file that is not its licence: what the file is for."""
    text = source[:24_000].decode("utf-8", "replace")
    bare = _BLOCK.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    code = _FIRST_CODE.search(bare)
    for match in _BLOCK.finditer(text):
        if code is not None and match.end() > code.start() - 1 and "\\file" not in match[0]:
            break
        if _LICENCE.search(match[0]):
            continue
        words = clean(match[0])
        if len(words) > 12 and not words.startswith(("#", "using ", "namespace")):
            return words[:3000]
    return ""
