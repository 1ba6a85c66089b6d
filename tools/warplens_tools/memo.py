"""Remembers the source tier's analysis of kernels that an edit elsewhere in the file did not touch.

A kernel's findings follow from its own text, the file outside all kernels (constants, launches, device
functions, declarations) and the architecture. Where these are the same again, the findings are the same,
moved by the lines the kernel moved. Findings that point outside their kernel are worked out anew: what
they point at may have moved by another distance.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from warplens_tools.finding import Finding
from warplens_tools.source.functions import find_functions
from warplens_tools.source.model import Kernel, LaunchSite, SourceModel
from warplens_tools.source.tree import parse_tree
from warplens_tools.text import SourceText, Span

_CAPACITY = 2048
_NOWHERE = Span(0, 0, 0, 0)


class _Entry(msgspec.Struct, frozen=True):
    span: Span
    findings: tuple[Finding, ...]


class KernelMemo:
    """Findings by kernel text and context; bounded, oldest go first. For one thread at a time."""

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()

    def find(self, key: bytes, kernel: Kernel) -> tuple[Finding, ...] | None:
        """The findings remembered under `key`, on the lines of `kernel`; None where there are none."""
        entry = self._entries.get(key)
        if entry is None or entry.span.column != kernel.span.column:
            return None
        self._entries.move_to_end(key)
        delta = kernel.span.line - entry.span.line
        return tuple(moved(f, delta) for f in entry.findings) if delta else entry.findings

    def keep(self, key: bytes, kernel: Kernel, findings: tuple[Finding, ...]) -> None:
        """Remember findings, if all they point at lies inside the kernel."""
        if all(kernel.span.contains(span) for finding in findings for span in spans_of(finding)):
            self._entries[key] = _Entry(kernel.span, findings)
            while len(self._entries) > _CAPACITY:
                self._entries.popitem(last=False)


def context_of(text: SourceText, model: SourceModel, arch: str) -> bytes:
    """A digest of the architecture and of what kernels may rest on outside their own text.

    That is the file without its kernels and without the bodies of host functions, of which only the
    launches and the constants count.
    """
    digest = hashlib.blake2b(arch.encode(), digest_size=16)
    digest.update(msgspec.json.encode([_placeless(site) for site in model.launches]))
    digest.update(msgspec.json.encode([(c.name, c.value, c.text) for c in model.constants]))
    at = 0
    for span in sorted([*(k.span for k in model.kernels), *_host_bodies(text)]):
        start = text.offset(span.line, span.column)
        digest.update(text.text[at : max(start, at)].encode("utf-8", "surrogatepass") + b"\0")
        at = max(at, text.offset(span.end_line, span.end_column))
    digest.update(text.text[at:].encode("utf-8", "surrogatepass"))
    return digest.digest()


def _host_bodies(text: SourceText) -> list[Span]:
    """Bodies of functions that no kernel can call, without preprocessor lines."""
    tree = parse_tree(text)
    functions = (
        f
        for f in find_functions(tree)
        if not f.is_device and not f.is_kernel and f.macro is None and "constexpr" not in f.header
    )
    return [span for span in (tree.span(f.body) for f in functions) if "#" not in text.slice(span)]


def _placeless(site: LaunchSite) -> LaunchSite:
    return msgspec.structs.replace(site, span=_NOWHERE, grid_span=_NOWHERE, block_span=_NOWHERE)


def key_of(context: bytes, text: SourceText, kernel: Kernel) -> bytes:
    """The key of a kernel in a context."""
    digest = hashlib.blake2b(context, digest_size=16)
    digest.update(f"{kernel.qualified_name}\0{kernel.macro}\0".encode())
    digest.update(text.slice(kernel.span).encode("utf-8", "surrogatepass"))
    return digest.digest()


def spans_of(finding: Finding) -> Iterable[Span]:
    """Every place a finding points at or edits."""
    yield finding.span
    yield from (related.span for related in finding.related)
    yield from (edit.span for fix in finding.fixes for edit in fix.edits)


def moved(finding: Finding, lines: int) -> Finding:
    """The finding with every span moved down by `lines` (up where negative)."""

    def move(span: Span) -> Span:
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
