# SPDX-License-Identifier: Apache-2.0
"""Where a new statement goes that is to run before a loop, or before any other statement."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.lexical import to_ascii, without_comments
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.text import TextEdit

_DIRECTIVE = re.compile(r"#[ \t]*(\w+)")
_TOKEN = re.compile(r"\w+|\S")


def insert_before(tree: SourceTree, statement: Node, written: str) -> TextEdit | None:
    """Write lines of code before a statement, above the pragmas that belong to it.

    The tree shows no pragma and no macro that holds one: an edit at the statement's own place would stand between
    `#pragma unroll` and its loop, and take the pragma to itself.

    Args:
        tree: of `statement`: the file's, or a kernel's with its macros expanded.
        written: one or more lines without indentation; they get the statement's.

    Returns:
        None where no statement can be added: the statement is the body of an `if` or a loop without braces, is
        labelled, or stands in a macro.
    """
    if statement.parent is None or statement.parent.type != "compound_statement":
        return None
    text = tree.file.text
    place = tree.span(statement)
    start = text.offset(place.line, place.column)
    token = _TOKEN.match(tree.code_of(statement))
    if token is None or not text.text.startswith(token[0], start):
        return None
    first = start_with_pragmas(tree.file, start)
    line = max(text.text.rfind(end, 0, first) for end in "\r\n") + 1
    lines = written.splitlines()
    if text.text[line:first].strip():
        return TextEdit(text.span(first, first), " ".join(lines) + " ")
    indent = re.match(r"[ \t]*", text.line_text(place.line))
    margin = indent[0] if indent is not None else ""
    return TextEdit(text.span(line, line), "".join(f"{margin}{one}{text.newline}" for one in lines))


def start_with_pragmas(file: SourceTree, start: int) -> int:
    """Where the pragmas in front of the statement at `start` begin, with the `#if` around them; else `start`."""
    before = len(file.masked.code[:start].rstrip())
    # A macro that the tree does not show, as one that spells a pragma.
    hidden = re.search(r"\S", file.masked.source[before:start])
    spelled = start if hidden is None else before + hidden.start()
    return min(spelled, _first_pragma(file.text.text, before, start))


def _first_pragma(text: str, start: int, end: int) -> int:
    code = without_comments(to_ascii(text[:end]))
    first, open_at = end, list[int]()
    for found in _DIRECTIVE.finditer(code, start):
        word, at = found[1], found.start()
        if word.startswith("if"):
            open_at.append(at)
        elif word == "pragma" and first == end:
            first = open_at[0] if open_at else at
        elif word == "endif" and open_at:
            open_at.pop()
        elif word in ("endif", "else", "elif"):
            first = end  # of an `#if` before: what stood above belongs to another statement
    return first
