# SPDX-License-Identifier: Apache-2.0
"""What the analysis of a kernel rests on outside its own text, as one key.

That is, by name and transitively: the macros, constants, types and device functions that the kernel names;
the host code that names the kernel (its launches, the calls of the functions they stand in, the copies made
for them) with what that names in turn. Where the key is the same again, so is the analysis of the source
tier. Other kernels and the bodies of other host functions do not count.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from warplens_tools.cuda.facts.aliasing import same_buffer
from warplens_tools.cuda.model import Kernel, LaunchSite, SourceModel
from warplens_tools.cuda.syntax.definitions import Part, PartTexts, digest, parts_of, words_of
from warplens_tools.cuda.syntax.macros import MacroTable
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.text import Span

_NOWHERE = Span(0, 0, 0, 0)
_words = functools.lru_cache(maxsize=512)(words_of)


class Basis(msgspec.Struct, frozen=True):
    """A kernel's key, and the parts it was made of, in file order."""

    key: bytes
    parts: tuple[Part, ...]


class Dependencies:
    """The parts of one tree by the names they declare and use. `gpu` names what kernels are judged against."""

    def __init__(self, tree: SourceTree, model: SourceModel, gpu: str, texts: PartTexts) -> None:
        self.tree, self.model, self.gpu = tree, model, gpu
        self.parts = parts_of(tree, texts)
        self._declaring: dict[str, list[int]] = {}
        self._using: dict[str, list[int]] = {}
        for index, part in enumerate(self.parts):
            for name in part.text.declared:
                self._declaring.setdefault(name, []).append(index)
            for name in part.text.words:
                self._using.setdefault(name, []).append(index)
        self._copying = [i for i, p in enumerate(self.parts) if p.kind == "host" and p.text.copies]
        self._near: dict[int, set[int]] = {}
        self._pastes = frozenset(n for n, m in tree.macros.by_name.items() if "##" in m.body)
        self._starts = [part.start for part in self.parts]
        self._grids = {site.grid.strip() for site in model.launches}
        self._outline = self._drawn()

    def basis(self, kernel: Kernel) -> Basis:
        """What the analysis of `kernel` rests on."""
        start, end = self.tree.text.offsets(kernel.span)
        first = max(bisect.bisect_right(self._starts, start) - 1, 0)
        own = tuple(range(first, max(bisect.bisect_left(self._starts, end), first + 1)))
        written, launched = tuple(self._own(kernel, start, end, own)), tuple(self._launched(kernel))
        key = ("basis", self._outline, own, written, launched)
        known: tuple[bytes, tuple[int, ...]] | None = self.tree.carried(key)
        if known is None:
            known = self._read(kernel, frozenset(own), written, launched)
            self.tree.carry(key, known)
        return Basis(known[0], tuple(self.parts[i] for i in known[1]))

    def _drawn(self) -> bytes:
        """A digest of all that says which parts rest on which, and of what they are: all but the kernels' bodies.

        Of a kernel's words only those count that are asked for, the names of kernels and of host functions.
        """
        asked = {kernel.name for kernel in self.model.kernels}
        asked.update(*(part.text.declared for part in self.parts if part.kind == "host"))
        drawn: list[str] = []
        for part in self.parts:
            text = part.text
            shown = f"{part.kind} {part.scope} {self.tree.is_conditional(part.end - 1)} "
            if part.kind == "kernel" and not self._pastes:
                words = f"{sorted(text.declared)} {sorted(asked & text.words)}"
                shown += f"{text.header.hex()} {words} {text.copies}"
            else:
                shown += text.code.hex()
            drawn.append(shown)
        macros = self.tree.macros
        return digest(
            *drawn, *(_macro(macros, name) for name in sorted({*macros.by_name, *macros.ambiguous}))
        )

    def _read(
        self, kernel: Kernel, own: frozenset[int], written: Iterable[str], launched: Iterable[str]
    ) -> tuple[bytes, tuple[int, ...]]:
        reached = _Reached(self.tree.macros)
        for index in own:
            reached.follow(self.parts[index].text.words)
        for index in self._naming(kernel.name) - own:
            reached.add(index, self.parts[index], whole=not _is_twin(self.parts[index], kernel.name))
        self._close(reached, own)
        if reached.macros & self._pastes:  # A name that is pasted together stands nowhere as such.
            reached.whole = dict.fromkeys(range(len(self.parts)), True)
        listed = sorted(set(reached.whole) - own)
        made = digest(
            *written,
            *(self._part(i, min(own, default=0), whole=reached.whole[i]) for i in listed),
            *(_macro(self.tree.macros, name) for name in sorted(reached.macros)),
            *launched,
        )
        return made, tuple(listed)

    def _naming(self, name: str) -> set[int]:
        """Parts that name a kernel; with the host functions among them those that copy for them, and callers."""
        found = set(self._using.get(name, ()))
        return found.union(*(self._around(i) for i in found if self.parts[i].kind == "host"))

    def _around(self, host: int) -> set[int]:
        """A function's callers, the functions with copies that it calls, and their callers."""
        if host not in self._near:
            copying = [i for i in self._copying if self._calls(host, i)]
            self._near[host] = {*copying, *(c for i in (host, *copying) for c in self._callers(i))}
        return self._near[host]

    def _callers(self, host: int) -> Iterator[int]:
        for function in self.parts[host].text.declared:
            for index in self._using.get(function, ()):
                if self.parts[index].kind == "other" or self._calls(index, host):
                    yield index

    def _calls(self, index: int, host: int) -> bool:
        called, text = self.parts[host].text.declared, self.parts[index].text
        return not called.isdisjoint(text.words) and called.isdisjoint(text.declared)

    def _close(self, reached: _Reached, own: frozenset[int]) -> None:
        """Add what the names reached so far declare, and the names in that, until nothing is new."""
        while reached.new:
            name = reached.new.pop()
            for index in self._declaring.get(name, ()):
                if index not in own and index not in reached.whole:
                    part = self.parts[index]
                    reached.add(index, part, whole=part.kind in ("device", "other"))

    def _own(self, kernel: Kernel, start: int, end: int, own: Sequence[int]) -> Iterable[str]:
        """The kernel as written and as the compiler sees it, and where in its surroundings it stands."""
        tree, text = self.tree, self.tree.text.text
        yield f"{self.gpu} {kernel.qualified_name} {kernel.macro} {kernel.template_parameters} {kernel.span.column}"
        yield text[start:end]
        yield tree.masked.source[start:end]
        branches = tree.masked.directives.conditional
        yield str([(a - start, b - start) for a, b in branches if a < end and start < b])
        yield self._reading(start, end) if kernel.broken else ""
        for index in own:
            part = self.parts[index]
            inside = start >= part.start and end == part.end
            yield part.scope + ("" if inside else part.text.exact.hex())

    def _reading(self, start: int, end: int) -> str:
        """How the parser read broken code, which depends on more than the code itself."""
        node = self.tree.root.descendant_for_byte_range(start, end)
        return self.tree.masked.code[start:end].decode("ascii") + str(node)

    def _part(self, index: int, kernel_at: int, *, whole: bool) -> str:
        part = self.parts[index]
        conditional = self.tree.is_conditional(part.end - 1)
        shown = part.text.code if whole else part.text.header
        return f"{index < kernel_at} {conditional} {part.scope} {shown.hex()}"

    def _launched(self, kernel: Kernel) -> Iterable[str]:
        """The launches, and what is read of host code by other means than names."""
        sites = self.model.launches_of(kernel)
        every = self.model.all_launches_of(kernel)
        yield msgspec.json.encode([_placeless(site) for site in every]).decode()
        passed = {argument.strip() for site in sites for argument in site.arguments}
        yield str(sorted(passed & self._grids))
        yield str(sorted(same_buffer(self.tree, self.model, kernel)) if sites else "")


class _Reached:
    """The parts and macros reached, and the names that are still to be looked up."""

    def __init__(self, table: MacroTable) -> None:
        self._table = table
        self._seen: set[str] = set()
        self.new: list[str] = []
        self.macros: set[str] = set()
        #: By the part's index: whether it counts whole, or only its header.
        self.whole: dict[int, bool] = {}

    def follow(self, names: frozenset[str]) -> None:
        fresh = names - self._seen
        self._seen |= fresh
        self.new += fresh
        for name in fresh & (self._table.by_name.keys() | self._table.ambiguous):
            self.macros.add(name)
            macro = self._table.by_name.get(name)
            if macro is not None:
                self.follow(_words(macro.body))

    def add(self, index: int, part: Part, *, whole: bool) -> None:
        self.whole[index] = whole
        self.follow(part.text.words if whole else part.text.header_words)


def _is_twin(part: Part, name: str) -> bool:
    """Whether the part is another kernel of that name."""
    return part.kind == "kernel" and name in part.text.declared


def _macro(table: MacroTable, name: str) -> str:
    macro = table.by_name.get(name)
    return f"{name} {macro and (macro.parameters, macro.body)} {name in table.ambiguous}"


def _placeless(site: LaunchSite) -> LaunchSite:
    return msgspec.structs.replace(site, span=_NOWHERE, grid_span=_NOWHERE, block_span=_NOWHERE)
