# SPDX-License-Identifier: Apache-2.0
"""The code that handles several neighbouring indices at a time, with their elements in vectors."""

from __future__ import annotations

import itertools
import re

import msgspec
from tree_sitter import Node

from warplens_tools.rewrite.common.declared import Declared, unqualified
from warplens_tools.rewrite.common.reading import View, renamed, substituted
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.rewrite.common.vectors import Array, Work

_WORD = re.compile(r"[A-Za-z_]\w*")
#: A comparison that holds between two indices where it holds for both.
_ORDER = re.compile(r"(?<![<>=!-])[<>]=?(?![<>])")


class VectorWriter:
    """The code for `kVector` indices at a time."""

    def __init__(
        self,
        view: View,
        style: Style,
        work: Work,
        arrays: tuple[Array, ...],
        vector: str,
        count: int,
        names: dict[str, str] | None = None,
    ) -> None:
        """`names` are locals that other writers of the kernel took, in scopes of their own; new ones join them."""
        self.view, self.style, self.work, self.arrays = view, style, work, arrays
        self.vector, self.count = vector, count
        known = names if names is not None else {}
        self.first, self.counter, self.chunk = (_local(style, known, n) for n in ("first", "v", "q"))
        self.parts = {(a.name, a.number): _local(style, known, _part(a.name, a.number)) for a in arrays}
        self.type = unqualified(work.type)
        #: Elements at the begin that the loop leaves out: vectors begin before them, where rows are aligned.
        self.skipped = str(work.begun) if work.base == str(work.begun) and 0 < work.begun < count else ""
        #: What the ends of a stretch that data tell are called, each once.
        self.ends = list[str]()
        if work.begin:
            self.skipped = self._end("begin", work.begin, known)
            self.work = msgspec.structs.replace(work, limit=self._end("end", work.limit, known))

    def _end(self, wanted: str, written: str, known: dict[str, str]) -> str:
        """A name for an end of a stretch, which is declared where it has none."""
        if _WORD.fullmatch(written):
            return written
        name = _local(self.style, known, wanted)
        self.ends.append(f"const {self.type} {name} = {written};")
        return name

    def loop(self) -> str:
        """The loop over the work's indices."""
        work = self.work
        if work.begin:
            begin = f"{self.skipped} - {self.skipped} % {self.vector}"
            head = f"for ({self.type} {self.first} = {begin}; {self.first} < {work.limit}; "
            head += f"{self.first} += {self.vector}) {{"
            return "\n".join([*self.ends, head, indented(self.vectors()), "}"])
        if not work.first:
            head = f"for ({self.type} {self.first} = 0; {self.first} < {work.limit}; {self.first} += {self.vector}) {{"
            return f"{head}\n{indented(self.vectors())}\n}}"
        first = work.first if re.fullmatch(r"[\w.]+", work.first) else f"({work.first})"
        step = work.step if re.fullmatch(r"[\w.]+", work.step) else f"({work.step})"
        base = f"{work.base} + " if work.base and not self.skipped else ""
        head = f"for ({self.type} {self.first} = {base}{self.vector} * {first}; {self.first} < {work.limit}; "
        return f"{head}{self.first} += {self.vector} * {step}) {{\n{indented(self.vectors())}\n}}"

    def vectors(self) -> str:
        """The vectors where they fit, else element after element."""
        work = self.work
        whole = [f"{self.first} >= {self.skipped}"] if self.skipped else []
        whole.append(f"{self.first} + {self.vector} <= {work.limit}")
        whole += [
            f"reinterpret_cast<size_t>({self._address(a)}) % {a.chunk(self.count)} == 0" for a in self.arrays
        ]
        asked = dict.fromkeys(self._asked(text, last) for a in self.arrays for text, last in a.asked)
        tests = " &&\n    ".join([*whole, *asked, *self._kept_from(), *self._apart()])
        lines = [f"if ({tests}) {{", indented(self._fast()), "} else {"]
        begin = (
            f"{self.first} < {self.skipped} ? {self.skipped} : {self.first}" if self.skipped else self.first
        )
        head = f"for ({self.type} {work.name} = {begin}; "
        head += f"{work.name} < {work.limit} && {work.name} < {self.first} + {self.vector}; ++{work.name}) {{"
        lines.append(indented("\n".join([head, indented(self._element(())), "}"])))
        return "\n".join([*lines, "}"])

    def _kept_from(self) -> list[str]:
        """Of the work's further conditions those that keep it from where an array may have no elements: what is alike
        for all of a vector, and for elements beside the index, as those of the row above, what its ends are asked.
        """
        bases, found = {a.base for a in self.arrays}, dict[str, None]()
        data = {d.name for d in self.work.declared if not d.is_index}
        for said in (part for text in self.work.others for part in conjuncts(text)):
            new = self._spelt_out(said)
            words = set(_WORD.findall(new))
            if words & data or re.search(r"\[|\w\s*\(", new):
                continue
            if self.work.name not in words:
                found[f"({said})" if "||" in said else said] = None
            elif len(bases) > 1 and _ORDER.search(new) and "||" not in new:
                found |= {self._asked(said, last): None for last in (False, True)}
        return list(found)

    def _apart(self) -> list[str]:
        """That vectors of one array that is stored to have no element in common."""
        pairs = itertools.combinations(self.arrays, 2)
        found = []
        for a, b in ((a, b) for a, b in pairs if a.name == b.name and (a.stored or b.stored)):
            one, other = self._address(a), self._address(b)
            found.append(f"({one} + {self.vector} <= {other} || {other} + {self.vector} <= {one})")
        return found

    def _asked(self, text: str, last: bool) -> str:
        """A condition on the index for the index of a vector that fails it first."""
        return renamed(
            self._spelt_out(text),
            {self.work.name: f"({self.first} + {self.vector} - 1)" if last else self.first},
        )

    def _spelt_out(self, text: str) -> str:
        """An expression by the index alone, without what is declared of it."""
        for one in reversed(self.work.declared):
            if one.value is not None and one.is_index:
                text = renamed(text, {one.name: f"({self.view.written(one.value)})"})
        return text

    def _address(self, array: Array) -> str:
        text = re.sub(r"\[\(([^()]*)\)\]", r"[\1]", self._spelt_out(array.written))
        address = f"&{renamed(text, {self.work.name: self.first})}"
        return f"{address} - {array.least}" if array.least else address

    def _fast(self) -> str:
        lines: list[str] = []
        pairs: list[tuple[Node, str]] = []
        for array in self.arrays:
            part = self.parts[array.name, array.number]
            extent = f"{array.fields} * {self.vector}" if array.fields > 1 else self.vector
            lines.append(f"alignas({array.chunk(self.count)}) {array.type} {part}[{extent}];")
            if array.read:
                lines.append(self._moved(array, part, self._address(array), "const "))
            pairs += [(p, f"{part}[{self._place(array, offset)}]") for p, offset in array.places]
        head = f"#pragma unroll\nfor (int {self.counter} = 0; {self.counter} < {self.vector}; ++{self.counter}) {{"
        inner = self._element(tuple(pairs))
        if re.search(rf"\b{re.escape(self.work.name)}\b", inner):
            inner = f"{self.type} {self.work.name} = {self.first} + {self.counter};\n{inner}"
        lines += [head, indented(inner), "}"]
        lines += [
            self._moved(a, self._address(a), self.parts[a.name, a.number], "")
            for a in self.arrays
            if a.stored
        ]
        return "\n".join(lines)

    def _place(self, array: Array, offset: int) -> str:
        start = f"{array.fields} * {self.counter}" if array.fields > 1 else self.counter
        return f"{start} + {offset}" if offset else start

    def _moved(self, array: Array, target: str, source: str, const: str) -> str:
        """The elements of one array, loaded into or stored from its part."""
        vector, chunks = array.vector(self.count), array.width(self.count) // array.chunk(self.count)
        to, of = f"reinterpret_cast<{vector}*>({target})", f"reinterpret_cast<{const}{vector}*>({source})"
        if chunks == 1:
            return f"*{to} = *{of};"
        head = f"#pragma unroll\nfor (int {self.chunk} = 0; {self.chunk} < {chunks}; ++{self.chunk}) {{"
        return f"{head}\n  {to}[{self.chunk}] = {of}[{self.chunk}];\n}}"

    def _element(self, pairs: tuple[tuple[Node, str], ...]) -> str:
        work = self.work
        below = [self._declared(d, pairs) for d in work.declared]
        inner = [self.style.code(substituted(self.view, s, _inside(s, pairs))) for s in work.statements]
        if work.others:
            inner = [f"if ({' && '.join(work.others)}) {{", *map(indented, inner), "}"]
        return "\n".join([*below, *inner])

    def _declared(self, one: Declared, pairs: tuple[tuple[Node, str], ...]) -> str:
        value = ""
        if one.value is not None:
            value = f" = {substituted(self.view, one.value, _inside(one.value, pairs))}"
        return f"{one.type} {one.stars}{one.name}{value};"


def conjuncts(text: str) -> list[str]:
    """What `a && b` says, outside of brackets."""
    parts, depth, at = list[str](), 0, 0
    for place, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0 and text.startswith("&&", place):
            parts.append(text[at:place].strip())
            at = place + 2
    return [*parts, text[at:].strip()]


def _local(style: Style, known: dict[str, str], wanted: str) -> str:
    if wanted not in known:
        known[wanted] = style.local(wanted)
    return known[wanted]


def _part(name: str, number: int) -> str:
    plain = re.sub(r"\W", "_", name)
    return (f"{plain}_part" if "_" in plain else f"{plain}Part") + (str(number + 1) if number else "")


def _inside(node: Node, pairs: tuple[tuple[Node, str], ...]) -> list[tuple[Node, str]]:
    return [(n, t) for n, t in pairs if node.start_byte <= n.start_byte and n.end_byte <= node.end_byte]
