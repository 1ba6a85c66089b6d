# SPDX-License-Identifier: Apache-2.0
"""Anchors: the exact lines that a plan names, and the edits that their replacements make.

As in STARK (arXiv 2510.16996) the planner anchors spans and the coder resolves every one. A claim names lines by
number and by their text; the text decides, and a claim that fits no place or several is said so, never guessed.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Mapping, Sequence

import msgspec

from warplens_tools.errors import WarplensError
from warplens_tools.text import SourceText, TextEdit

#: Spans of one plan: a change in more places is a rewrite, for which one span over the function is clearer.
MOST_ANCHORS = 8


class Claim(msgspec.Struct, frozen=True):
    """Where a planner says a span is; lines are 1-based and inclusive."""

    id: str
    first_line: int = 0
    last_line: int = 0
    first_text: str = ""
    last_text: str = ""
    change: str = ""


class Anchor(msgspec.Struct, frozen=True):
    """A span of whole lines of one text, 1-based and inclusive."""

    id: str
    first: int
    last: int
    change: str = ""


class AnchorError(WarplensError):
    """A claim, or a replacement, fits no place or several; `kind` is what it is counted under."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def located(text: SourceText, claims: Sequence[Claim]) -> tuple[Anchor, ...]:
    """Where the claims are, in the order of the text.

    Raises:
        AnchorError: there are none or too many, two have one id or overlap, or one fits no place or several.
    """
    if not claims:
        raise AnchorError("wrong_anchor", "the plan anchors nothing")
    if len(claims) > MOST_ANCHORS:
        raise AnchorError("wrong_anchor", f"the plan has {len(claims)} anchors, more than {MOST_ANCHORS}")
    if len({claim.id for claim in claims}) < len(claims):
        raise AnchorError("ambiguous_anchor", "two anchors have the same id")
    lines = [text.line_text(n).strip() for n in range(1, text.line_count + 1)]
    found = sorted((_locate(lines, claim) for claim in claims), key=lambda a: a.first)
    for above, below in itertools.pairwise(found):
        if below.first <= above.last:
            raise AnchorError("ambiguous_anchor", f"anchors {above.id} and {below.id} overlap")
    return tuple(found)


def _locate(lines: Sequence[str], claim: Claim) -> Anchor:
    if not claim.id.replace("_", "").isalnum():
        raise AnchorError("wrong_anchor", f"{claim.id[:20]!r} is no id of an anchor")
    first = _line(lines, claim.first_line, claim.first_text, claim.id, "first", 1)
    moved = first - claim.first_line if claim.first_line else 0
    last = _line(lines, claim.last_line + moved, claim.last_text or claim.first_text, claim.id, "last", first)
    return Anchor(claim.id, first, last, claim.change)


def _line(lines: Sequence[str], number: int, text: str, anchor: str, which: str, least: int) -> int:
    """The line of that text, at `number` where it stands there, else the only one from `least` on."""
    wanted = text.strip()
    if not wanted:
        if least <= number <= len(lines):
            return number
        raise AnchorError("wrong_anchor", f"anchor {anchor} quotes no {which} line")
    if least <= number <= len(lines) and lines[number - 1] == wanted:
        return number
    places = [n for n in range(least, len(lines) + 1) if lines[n - 1] == wanted]
    if not places:
        raise AnchorError("wrong_anchor", f"anchor {anchor}: no line reads {wanted[:120]!r}")
    if len(places) > 1:
        where = ", ".join(map(str, places[:6]))
        raise AnchorError(
            "ambiguous_anchor",
            f"anchor {anchor}: its {which} line stands on lines {where}, and not on line {number}",
        )
    return places[0]


def resolved(text: SourceText, anchors: Sequence[Anchor], new: Mapping[str, str]) -> tuple[TextEdit, ...]:
    """Edits that put the replacements in; spans that stay as they are make none.

    Raises:
        AnchorError: a span has no replacement, or a replacement no span.
    """
    known = {anchor.id for anchor in anchors}
    if missing := sorted(known - set(new)):
        raise AnchorError("unresolved_anchor", f"there is no block for {', '.join(missing)}")
    if strange := sorted(set(new) - known):
        raise AnchorError("wrong_anchor", f"there is no span {', '.join(s[:20] for s in strange)}")
    edits = (_replacement(text, anchor, new[anchor.id]) for anchor in anchors)
    return tuple(edit for edit in edits if text.slice(edit.span) != edit.new_text)


def replaced(text: SourceText, old: str, new: str) -> TextEdit:
    """The edit that replaces a quotation which stands exactly once.

    Raises:
        AnchorError: it stands nowhere, or more than once.
    """
    wanted = _with_newlines(old.strip("\n"), text.newline)
    count = text.text.count(wanted) if wanted.strip() else 0
    if count != 1:
        kind = "ambiguous_anchor" if count else "wrong_anchor"
        raise AnchorError(
            kind, f"the quoted text stands {count} times in the source: {wanted.strip()[:80]!r}"
        )
    start = text.text.index(wanted)
    return TextEdit(text.span(start, start + len(wanted)), _with_newlines(new.strip("\n"), text.newline))


def hunks(before: SourceText, after: SourceText) -> tuple[Anchor, ...]:
    """The spans of `after` that differ from `before`, those that touch joined; a deletion takes the next line."""
    matcher = difflib.SequenceMatcher(None, before.lines(), after.lines(), autojunk=False)
    spans: list[list[int]] = []
    for tag, _, _, low, high in matcher.get_opcodes():
        if tag == "equal":
            continue
        first, last = low + 1, max(high, low + 1)
        last = min(last, after.line_count)
        first = min(first, last)
        if spans and first <= spans[-1][1] + 1:
            spans[-1][1] = max(spans[-1][1], last)
        else:
            spans.append([first, last])
    while len(spans) > MOST_ANCHORS:  # join the two that are closest
        at = min(range(len(spans) - 1), key=lambda i: spans[i + 1][0] - spans[i][1])
        spans[at : at + 2] = [[spans[at][0], spans[at + 1][1]]]
    return tuple(Anchor(f"A{i}", first, last) for i, (first, last) in enumerate(spans, 1))


def _replacement(text: SourceText, anchor: Anchor, new: str) -> TextEdit:
    start = text.offset(anchor.first, 1)
    if not new.strip():  # a deletion takes the line's end along
        end = text.offset(anchor.last + 1, 1) if anchor.last < text.line_count else len(text.text)
        return TextEdit(text.span(start, end), "")
    end = text.offset(anchor.last, len(text.line_text(anchor.last)) + 1)
    return TextEdit(text.span(start, end), _with_newlines(new.strip("\n"), text.newline))


def _with_newlines(text: str, newline: str) -> str:
    return newline.join(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
