# SPDX-License-Identifier: Apache-2.0
"""Remembers the source tier's analysis of kernels that an edit did not touch.

Where what a kernel rests on (`cuda.dependencies`) is the same again, so are its class and its findings,
moved by the lines that the kernel moved. A finding that also points at host code, or at a declaration, is
moved with that part of the file, as long as it is the same to the letter.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from warplens_tools.arch.gpu import Gpu
from warplens_tools.cuda.dependencies import Basis, Dependencies
from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.syntax.definitions import Part, PartTexts
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.finding import Bottleneck, Finding
from warplens_tools.text import SourceText, Span

_CAPACITY = 512
_NAMES_A_LINE = re.compile(rb"\blines? \d")


class Analysed(msgspec.Struct, frozen=True):
    """What the source tier says of a kernel."""

    bottleneck: Bottleneck
    findings: tuple[Finding, ...]
    #: Array accesses that were not judged.
    left_out: int = 0


class _Anchor(msgspec.Struct, frozen=True):
    """A stretch of the file that findings point into, and what must be the same for them to hold."""

    span: Span
    exact: bytes


class _Entry(msgspec.Struct, frozen=True):
    analysed: Analysed
    #: The kernel, then the parts it rests on; None for those that no finding points into.
    anchors: tuple[_Anchor | None, ...]
    #: A sentence names a line, which holds only where nothing moved.
    fixed: bool


class KernelMemo:
    """Analyses by what they rest on; bounded, oldest go first. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._texts = PartTexts()

    def dependencies(self, tree: SourceTree, model: SourceModel, gpu: Gpu) -> Dependencies:
        """The dependencies of the kernels of a tree; what parts of its text say is remembered."""
        return Dependencies(tree, model, f"{gpu.arch} {gpu.name}", self._texts)

    def find(self, basis: Basis, kernel: Kernel, text: SourceText) -> Analysed | None:
        """What is remembered of a kernel, on its lines in `text`; None where there is nothing."""
        with self._lock:
            entry = self._entries.get(basis.key)
            if entry is None:
                return None
            self._entries.move_to_end(basis.key)
        now: tuple[Kernel | Part, ...] = (kernel, *basis.parts)
        deltas = [_delta(old, new, text) for old, new in zip(entry.anchors, now, strict=True)]
        if None in deltas or (entry.fixed and any(deltas)):
            return None
        if not any(deltas):
            return entry.analysed
        places = [(a.span, d) for a, d in zip(entry.anchors, deltas, strict=True) if a is not None]
        findings = tuple(_moved(f, places) for f in entry.analysed.findings)
        return Analysed(entry.analysed.bottleneck, findings, entry.analysed.left_out)

    def keep(self, basis: Basis, kernel: Kernel, text: SourceText, analysed: Analysed) -> None:
        """Remember an analysis, if all it points at lies in the kernel and in what it rests on."""
        anchors = [_anchor(kernel, text), *(_anchor(part, text) for part in basis.parts)]
        spans = [span for finding in analysed.findings for span in spans_of(finding)]
        owners = [_owner(span, anchors) for span in spans]
        if None in owners:
            return
        fixed = _NAMES_A_LINE.search(msgspec.json.encode(analysed)) is not None
        used = set(range(len(anchors))) if fixed else {0, *owners}
        kept = tuple(a if i in used else None for i, a in enumerate(anchors))
        with self._lock:
            self._entries[basis.key] = _Entry(analysed, kept, fixed)
            while len(self._entries) > _CAPACITY:
                self._entries.popitem(last=False)


def spans_of(finding: Finding) -> Iterable[Span]:
    """Every place a finding points at or edits."""
    yield finding.span
    yield from (related.span for related in finding.related)
    yield from (edit.span for fix in finding.fixes for edit in fix.edits)


def _anchor(place: Kernel | Part, text: SourceText) -> _Anchor:
    if isinstance(place, Kernel):
        return _Anchor(place.span, b"")
    return _Anchor(text.span(place.start, place.end), place.text.exact)


def _owner(span: Span, anchors: Iterable[_Anchor]) -> int | None:
    return next((i for i, anchor in enumerate(anchors) if anchor.span.contains(span)), None)


def _delta(old: _Anchor | None, place: Kernel | Part, text: SourceText) -> int | None:
    """How many lines an anchor moved down; None where what stands there changed."""
    if old is None:
        return 0
    new = _anchor(place, text)
    if old.exact != new.exact or old.span.column != new.span.column:
        return None
    return new.span.line - old.span.line


def _moved(finding: Finding, places: Iterable[tuple[Span, int | None]]) -> Finding:
    """The finding with every span moved down with the place it lies in."""

    def move(span: Span) -> Span:
        lines = next((d or 0 for place, d in places if place.contains(span)), 0)
        return Span(span.line + lines, span.column, span.end_line + lines, span.end_column)

    replace = msgspec.structs.replace
    return replace(
        finding,
        span=move(finding.span),
        related=tuple(replace(r, span=move(r.span)) for r in finding.related),
        fixes=tuple(
            replace(f, edits=tuple(replace(e, span=move(e.span)) for e in f.edits)) for f in finding.fixes
        ),
    )
