# SPDX-License-Identifier: Apache-2.0
"""A case put into words within a bound on its tokens.

Sections stand in the order in which a reader needs them; where they do not all fit, those of the lowest priority are
cut first, a line at a time from their end, and say so. The source is the last to be cut, from what lies farthest from
the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from warplens.agent.llm.anchors import Anchor
from warplens.agent.llm.provider import CHARACTERS_PER_TOKEN, size_of
from warplens_tools.cuda.model import SourceModel
from warplens_tools.text import SourceText, Span

#: Priorities, the highest kept longest. The source is needed to answer at all, the failure to repair it; then come
#: what to do, and what was done. What other branches did is the first to go.
SOURCE, PLAN, FAILURE, FINDINGS, CHILDREN, LIBRARY, OWN, LEADERS, SIBLINGS, COUSINS = range(10, 0, -1)
#: Share of a case that a long source leaves to all other sections.
OTHERS_SHARE = 0.4
_LEFT_OUT = "(… {} lines left out)"


class Section(msgspec.Struct, frozen=True):
    """A part of a case. `shorter` gives its text within a size, see `size_of`; None drops lines from the end."""

    title: str
    text: str
    priority: int
    shorter: Callable[[int], str] | None = None

    def within(self, size: int) -> Section | None:
        """The section in that size, title included; None where not even its beginning fits."""
        room = size - size_of(self.title) - 6
        if size_of(self.text) <= room:
            return self
        if room < 80:
            return None
        text = self.shorter(room) if self.shorter is not None else _first_lines(self.text, room)
        return msgspec.structs.replace(self, text=text) if text else None

    def shown(self) -> str:
        """As it stands in a prompt."""
        return f"## {self.title}\n\n{self.text}"


def bounded(sections: Iterable[Section], tokens: int) -> str:
    """The sections in their order, in at most so many tokens; empty ones are left out."""
    given = [section for section in sections if section.text.strip()]
    room = tokens * CHARACTERS_PER_TOKEN
    others = sum(size_of(section.shown()) + 2 for section in given if section.priority != SOURCE)
    kept: dict[int, Section] = {}
    for place in sorted(range(len(given)), key=lambda i: (-given[i].priority, i)):
        # a long source leaves the others their share: without the plan there is nothing to write
        spared = min(others, int(room * OTHERS_SHARE)) if given[place].priority == SOURCE else 0
        fitting = given[place].within(room - spared)
        if fitting is None:
            continue
        kept[place] = fitting
        room -= size_of(fitting.shown()) + 2
    return "\n\n".join(kept[place].shown() for place in sorted(kept))


def numbered(text: SourceText, model: SourceModel, kernel: str, room: int = 0) -> str:
    """The source with line numbers; within the size `room` where that is not 0."""
    return _source(text, _wanted(text, model, kernel, ()), room, lambda n: f"{n:4d} | ", {})


def with_marks(
    text: SourceText, model: SourceModel, kernel: str, anchors: Sequence[Anchor], room: int = 0
) -> str:
    """The source with the anchors' marks; within the size `room` where that is not 0."""
    spans = tuple(Span(a.first, 1, a.last, 1) for a in anchors)
    marks: dict[int, tuple[str, str]] = {}
    for anchor in anchors:
        marks[anchor.first] = (f"<<<{anchor.id}", marks.get(anchor.first, ("", ""))[1])
    for anchor in anchors:
        marks[anchor.last] = (marks.get(anchor.last, ("", ""))[0], f"{anchor.id}>>>")
    return _source(text, _wanted(text, model, kernel, spans), room, lambda _: "", marks)


def _source(
    text: SourceText,
    wanted: Sequence[int],
    room: int,
    head: Callable[[int], str],
    marks: dict[int, tuple[str, str]],
) -> str:
    """Lines in the order of the text, those wanted first kept; what is left out says how much."""
    shown = {number: _line(text, number, head, marks) for number in range(1, text.line_count + 1)}
    if room and sum(size_of(line) + 1 for line in shown.values()) > room:
        kept, left = set(), room - 60
        for number in wanted:
            left -= size_of(shown[number]) + 1
            if left < 0:
                break
            kept.add(number)
        shown = {number: line for number, line in shown.items() if number in kept}
    parts, at = [], 1
    for number, line in sorted(shown.items()):
        if number > at:
            parts.append(_LEFT_OUT.format(number - at))
        parts.append(line)
        at = number + 1
    if at <= text.line_count:
        parts.append(_LEFT_OUT.format(text.line_count - at + 1))
    return "\n".join(parts)


def _line(
    text: SourceText, number: int, head: Callable[[int], str], marks: dict[int, tuple[str, str]]
) -> str:
    before, after = marks.get(number, ("", ""))
    line = head(number) + text.line_text(number)
    return "\n".join(part for part in (before, line, after) if part or part is line)


def _wanted(text: SourceText, model: SourceModel, kernel: str, first: Sequence[Span]) -> list[int]:
    """All lines, the most needed first: anchors, the kernel, its launches, constants and includes, then by distance."""
    found = model.kernel(kernel)
    spans = [*first]
    if found is not None:
        spans += [found.span, *(site.span for site in model.launches_of(found))]
    spans += [constant.span for constant in model.constants] + [include.span for include in model.includes]
    order: dict[int, None] = {}
    for span in spans:
        order |= dict.fromkeys(range(span.line, span.end_line + 1))
    middle = found.span.line if found is not None else 1
    rest = sorted(range(1, text.line_count + 1), key=lambda number: abs(number - middle))
    order |= dict.fromkeys(rest)
    return [number for number in order if 1 <= number <= text.line_count]


def _first_lines(text: str, room: int) -> str:
    lines, kept, left = text.split("\n"), 0, room - size_of(_LEFT_OUT) - 6
    for line in lines:
        left -= size_of(line) + 1
        if left < 0:
            break
        kept += 1
    return "\n".join([*lines[:kept], _LEFT_OUT.format(len(lines) - kept)]) if kept else ""
