# SPDX-License-Identifier: Apache-2.0
"""Two texts, and the edits between them."""

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
