# SPDX-License-Identifier: Apache-2.0
"""Windows that may be clipped at the edges, in the form that rewrites read: a loop of one length for all outputs.

A loop from `max(i - r, 0)` to `min(i + r, n - 1)` becomes one from `-r` to `r` whose body is done for what lies
inside, and one from `i - r` to `i + r`, whose body asks that itself, alike.
Results stay as they are: the same elements in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.rewrite.common.normal_bounds import SIGNED, VARIES, WORD, BoundReader, bare, squeezed
from warplens_tools.text import SourceText, TextEdit

_OTHER = {"+": "-", "-": "+"}


class _Span(msgspec.Struct, frozen=True):
    """Where a loop begins or ends for one output: `centre + offset`, and what clips it; "" for nothing."""

    terms: tuple[str, ...]
    clip: str


def centred(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edits that write one clipped loop around the output's place; () where there is none."""
    reader = _Reader(text, file, kernel)
    for loop in (
        (n for n in walk(reader.body) if n.type == "for_statement") if reader.body is not None else ()
    ):
        edits = reader.around(loop)
        if edits:
            return edits
    return ()


class _Reader(BoundReader):
    """The loops of one kernel."""

    def around(self, loop: Node) -> tuple[TextEdit, ...]:
        """A loop as one around the output's place, whose body asks what lies inside."""
        initial, condition, update, body = (
            loop.child_by_field_name(n) for n in ("initializer", "condition", "update", "body")
        )
        if initial is None or body is None or initial.type != "declaration":
            return ()
        declarators = initial.children_by_field_name("declarator")
        written = self.code(initial)[: declarators[0].start_byte - initial.start_byte] if declarators else ""
        if len(declarators) != 1 or not SIGNED.fullmatch(written.strip()):
            return ()
        name = self.code(declarators[0].child_by_field_name("declarator"))
        step = squeezed(self.code(update))
        if step not in (f"{name}++", f"++{name}", f"{name}+=1") or self.changes(body, name):
            return ()
        first = self._span(declarators[0].child_by_field_name("value"), "max")
        last = self._last(condition, name)
        if first is None or last is None:
            return ()
        return self._written(loop, body, name, first, last)

    def _last(self, condition: Node | None, name: str) -> tuple[str, _Span, list[str]] | None:
        """The comparison with the window's end, that end, and what else must hold."""
        parts, others, found = _parts(condition), list[str](), None
        for part in parts:
            left, right = (bare(part.child_by_field_name(n)) for n in ("left", "right"))
            kind = self.code(part.child_by_field_name("operator"))
            if left is None or self.code(left) != name or kind not in ("<", "<="):
                return None
            span = self._span(right, "min")
            if span is not None and found is None and self._moves(span):
                found = kind, span
            else:
                others.append(f"{name} {kind} {self.code(right)}")
        return (*found, others) if found is not None else None

    def _moves(self, span: _Span) -> bool:
        return any(self._is_place(t[1:]) for t in span.terms)

    def _span(self, node: Node | None, kind: str) -> _Span | None:
        """One end of a loop, through variables that are set once."""
        node, clip = bare(node), ""
        for _ in range(3):
            declared = (
                self._value(self.code(node)) if node is not None and node.type == "identifier" else None
            )
            call = self.call(declared if declared is not None else node)
            if call is None:
                break
            if call[0] != kind or clip:
                return None
            ends = sorted((bare(g) for g in call[1]), key=lambda g: not self._rests(g))
            if not self._rests(ends[0]) or self._rests(ends[1]):
                return None
            node, clip = ends[0], self.code(ends[1])
        terms = tuple(_terms(node, self.code)) if node is not None else ()
        return _Span(terms, clip) if terms else None

    def _rests(self, node: Node | None) -> bool:
        """Whether an expression is made of a variable of the kernel that is no number for all threads."""
        return any(not self._is_uniform(w) for w in (self.words(node) if node is not None else ()))

    def _is_place(self, name: str) -> bool:
        """Whether a variable numbers the thread's output, and not the beginning of a chunk of its own."""
        value = self._value(name) if WORD.fullmatch(name) else None
        return value is not None and bool(re.search(r"threadIdx|[/%]", self.code(value)))

    def _is_uniform(self, name: str) -> bool:
        """Whether a name is alike for all threads: a parameter, a constant, or what is made of those."""
        if any(name == p.name for p in self.kernel.parameters):
            return self.body is not None and not self.changes(self.body, name)
        value = self._value(name)
        if value is None:
            return not re.search(rf"\b{name}\b\s*[=;,)]", self._heads()) and name not in (
                "threadIdx",
                "blockIdx",
            )
        return not VARIES.search(self.code(value)) and all(self._is_uniform(w) for w in self.words(value))

    def _heads(self) -> str:
        """Everything that the body declares."""
        nodes = walk(self.body) if self.body is not None else ()
        return "\n".join(self.code(n) for n in nodes if n.type == "declaration")

    def _value(self, name: str) -> Node | None:
        """What a variable of the kernel, declared once and not changed, is."""
        found = []
        for node in walk(self.body) if self.body is not None else ():
            for one in node.children_by_field_name("declarator") if node.type == "declaration" else ():
                inner = one.child_by_field_name("declarator") if one.type == "init_declarator" else one
                if self.code(inner) == name:
                    found.append(one.child_by_field_name("value") if one.type == "init_declarator" else None)
        if len(found) != 1 or found[0] is None or self.body is None or self.changes(self.body, name):
            return None
        return bare(found[0])

    def _written(
        self, loop: Node, body: Node, name: str, first: _Span, last: tuple[str, _Span, list[str]]
    ) -> tuple[TextEdit, ...]:
        kind, end, others = last
        centre = [t for t in first.terms if t in end.terms and self._is_place(t[1:])]
        if len(centre) != 1 or centre[0][0] != "+":
            return ()
        begin, stop = (_without(s.terms, centre[0]) for s in (first, end))
        if any(not self._is_uniform(w) for w in WORD.findall(f"{begin} {stop}")):
            return ()
        moved = f"d{name}"
        while re.search(rf"\b{moved}\b", self.text.slice(self.kernel.span)):
            moved += "_"
        inside = [f"{name} >= {first.clip}"] if first.clip else []
        inside += [f"{name} {kind} {end.clip}"] if end.clip else []
        inside += others
        margin = re.match(r"[ \t]*", self.text.line_text(self.file.span(loop).line))
        indent = margin[0] if margin is not None else ""
        step = "  " if "\t" not in indent else "\t"
        text = self._inside(body, " && ".join(inside), indent, step)
        newline = self.text.newline
        head = f"for (int {moved} = {begin}; {moved} {kind} {stop}; ++{moved}) {{"
        lines = [head, f"{indent}{step}const int {name} = {centre[0][1:]} + {moved};", text, f"{indent}}}"]
        return (TextEdit(self.file.span(loop), newline.join(lines)),)

    def _inside(self, body: Node, test: str, indent: str, step: str) -> str:
        newline, nested = self.text.newline, any(n.type in LOOPS for n in walk(body))
        written = self.text.slice(self.file.span(body))
        if not test:
            is_block = body.type == "compound_statement"
            return written[1:-1].strip("\r\n").rstrip() if is_block else f"{indent}{step}{written}"
        if body.type == "compound_statement" and nested:
            # a row that lies outside is left, so that what remains is the loop through it
            lines = written[1:-1].strip("\r\n").rstrip()
            return f"{indent}{step}if (!({test})) continue;{newline}{lines}"
        if nested:
            return f"{indent}{step}if (!({test})) continue;{newline}{indent}{step}{written}"
        deeper = written.replace("\n", f"\n{step}")
        return f"{indent}{step}if ({test}) {deeper}"


def _parts(node: Node | None) -> list[Node]:
    """The comparisons that `&&` joins; none where there is something else."""
    node = bare(node)
    if node is None or node.type != "binary_expression":
        return []
    operator = node.child_by_field_name("operator")
    if operator is not None and operator.type == "&&":
        halves = [_parts(node.child_by_field_name(n)) for n in ("left", "right")]
        return [*halves[0], *halves[1]] if all(halves) else []
    return [node]


def _terms(node: Node | None, code: Callable[[Node | None], str], sign: str = "+") -> Iterator[str]:
    """What a sum adds and subtracts, each behind its sign."""
    node = bare(node)
    operator = code(node.child_by_field_name("operator")) if node is not None else ""
    if node is not None and node.type == "binary_expression" and operator in ("+", "-"):
        yield from _terms(node.child_by_field_name("left"), code, sign)
        yield from _terms(node.child_by_field_name("right"), code, sign if operator == "+" else _OTHER[sign])
    elif node is not None:
        yield sign + code(node)


def _without(terms: tuple[str, ...], one: str) -> str:
    """A sum without one of its terms."""
    rest = list(terms)
    rest.remove(one)
    text = " ".join(f"{t[0]} {t[1:]}" for t in sorted(rest, key=lambda t: t[1:].isdigit()))
    return re.sub(r"^- ", "-", text.removeprefix("+ ")) or "0"
