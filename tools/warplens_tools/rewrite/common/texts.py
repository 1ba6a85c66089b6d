# SPDX-License-Identifier: Apache-2.0
"""Edits of a text: what makes another of it, and what takes a stretch out with its line."""

from __future__ import annotations

import difflib

from warplens_tools.text import SourceText, TextEdit


def between(before: SourceText, after: SourceText) -> tuple[TextEdit, ...]:
    """The edits, by whole lines, that make one text of another."""
    old, new = before.text.splitlines(keepends=True), after.text.splitlines(keepends=True)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    return tuple(
        TextEdit(before.span(starts[a], starts[b]), "".join(new[c:d]))
        for kind, a, b, c, d in matcher.get_opcodes()
        if kind != "equal"
    )


def cut(text: SourceText, start: int, end: int) -> TextEdit:
    """What stands between two offsets taken out, with its line where it stands there alone."""
    whole = text.text
    low, high = whole.rfind("\n", 0, start) + 1, whole.find("\n", end)
    alone = not whole[low:start].strip() and high >= 0 and not whole[end:high].strip()
    return TextEdit(text.span(low, high + 1) if alone else text.span(start, end), "")
