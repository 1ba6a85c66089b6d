# SPDX-License-Identifier: Apache-2.0
"""Kernels whose threads stride over their outputs by the grid, with an output for each thread, and grids that have as
many: `for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)` as `if (i < n)`.

A rewrite that refuses a kernel in every other form is asked once more for it in this one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel, LaunchSite, SourceModel
from warplens_tools.cuda.syntax.lexical import matching
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, parse_tree, walk
from warplens_tools.text import SourceText, TextEdit

_CAST = re.compile(r"\((?:size_t|int|long|longlong|unsigned|unsignedint|int64_t|uint32_t)\)")
_NUMBER = re.compile(r"\(?(?:blockIdx\.x\*blockDim\.x|blockDim\.x\*blockIdx\.x)\)?\+threadIdx\.x"
                     r"|threadIdx\.x\+\(?(?:blockIdx\.x\*blockDim\.x|blockDim\.x\*blockIdx\.x)\)?")  # fmt: skip
_STRIDE = re.compile(r"blockDim\.x\*gridDim\.x|gridDim\.x\*blockDim\.x")
_WORD = re.compile(r"[A-Za-z_]\w*")
_ATOM = re.compile(r"[\w.]+")
#: Variables made of variables are followed this far.
_DEEP = 4


def an_output_each(text: SourceText, model: SourceModel, kernel: Kernel) -> SourceText | None:
    """The file with one output a thread of the kernel; None where its threads have that, or share more than a loop."""
    file = parse_tree(text)
    span = kernel.body
    ends = text.offset(span.line, span.column), text.offset(span.end_line, span.end_column)
    body = file.root.descendant_for_byte_range(*ends)
    if body is None or body.type != "compound_statement" or kernel.template_parameters:
        return None
    edits = _Strides(text, file, model, kernel, body).edits()
    return text.apply(edits) if edits else None


class _Strides:
    """One kernel's body and its launches."""

    def __init__(
        self, text: SourceText, file: SourceTree, model: SourceModel, kernel: Kernel, body: Node
    ) -> None:
        self.text, self.file, self.model, self.kernel, self.body = text, file, model, kernel, body
        #: What variables at the top are declared with, and where.
        self.values: dict[str, tuple[str, Node]] = {}

    def code(self, node: Node | None) -> str:
        """A node's code; "" for None."""
        return self.file.code_of(node).strip() if node is not None else ""

    def edits(self) -> list[TextEdit]:
        """Those of the kernel and of its launches; none where they do not apply."""
        inside = [n for n in self.body.named_children if n.type != "comment"]
        loop = inside[-1] if inside else None
        if loop is None or loop.type != "for_statement" or any(n.type != "declaration" for n in inside[:-1]):
            return []
        for node in inside[:-1]:
            for one in node.children_by_field_name("declarator"):
                value = one.child_by_field_name("value")
                self.values[self.code(one.child_by_field_name("declarator"))] = (self.code(value), node)
        head = self._head(loop)
        if head is None or self._keeps_more(loop):
            return []
        name, kind, first, limit, stride = head
        launched = list(self._launches(limit))
        if not launched or None in launched:
            return []
        body = loop.child_by_field_name("body")
        assert body is not None
        begin, end = self._start(loop), self._start(body)
        margin = self.text.margin(self.file.span(loop).line)
        new = f"{kind} {name} = {first};{self.text.newline}{margin}if ({name} < {limit}) "
        found = [TextEdit(self.text.span(begin, end), new), *(e for e in launched if e is not None)]
        if stride:
            found.append(TextEdit(self.file.span(self.values[stride][1]), ""))
        return found

    def _start(self, node: Node) -> int:
        span = self.file.span(node)
        return self.text.offset(span.line, span.column)

    def _head(self, loop: Node) -> tuple[str, str, str, str, str] | None:
        """The counter, its type, its first value and its end, and the name of the stride, "" where it has none."""
        initial, condition = loop.child_by_field_name("initializer"), loop.child_by_field_name("condition")
        found = re.fullmatch(r"((?:\w+\s+)+)(\w+)\s*=\s*([^,;]+);?", self.code(initial), re.DOTALL)
        if found is None or condition is None or initial is None or initial.type != "declaration":
            return None
        name, first = found[2], found[3].strip()
        end = re.fullmatch(rf"{name}\s*<\s*([^<>=&|?]+)", self.code(condition))
        step = re.fullmatch(rf"{name}\s*\+=\s*(.+)", self.code(loop.child_by_field_name("update")))
        if end is None or step is None or not _NUMBER.fullmatch(self._bare(first)):
            return None
        stride = step[1].strip() if step[1].strip() in self.values else ""
        if not _STRIDE.fullmatch(self._bare(step[1])):
            return None
        if stride and (len(self._uses(stride)) != 2 or self._declares_more(stride)):
            return None
        if len(re.findall(r"\bgridDim\b", self.code(self.body))) != 1:
            return None
        return name, found[1].strip(), first, end[1].strip(), stride

    def _bare(self, code: str) -> str:
        """What an expression comes to, without casts and white space."""
        whole = self.values[code.strip()][0] if code.strip() in self.values else code
        plain = _CAST.sub("", "".join(whole.split()))
        return plain[1:-1] if re.fullmatch(r"\([^()]*\)", plain) else plain

    def _uses(self, name: str) -> list[Node]:
        return [n for n in walk(self.body) if n.type == "identifier" and self.code(n) == name]

    def _declares_more(self, name: str) -> bool:
        return len(self.values[name][1].children_by_field_name("declarator")) != 1

    def _keeps_more(self, loop: Node) -> bool:
        """Whether threads work together, leave the loop, or keep something from one output to the next."""
        body = loop.child_by_field_name("body")
        code = self.code(self.body)
        if body is None or re.search(r"__sync|__shfl|__ballot|__shared__|\basm\b", code):
            return True
        own = {n for d in walk(loop) if d.type == "declaration" for n in self._declared(d)}
        for node in walk(body):
            if node.type in ("return_statement", "goto_statement"):
                return True
            if node.type in ("break_statement", "continue_statement") and self._is_of(node, loop):
                return True
            place = node.child_by_field_name("left" if node.type == "assignment_expression" else "argument")
            changes = node.type in ("assignment_expression", "update_expression")
            if changes and place is not None and place.type == "identifier" and self.code(place) not in own:
                return True
        counter = next(iter(self._declared(loop.child_by_field_name("initializer"))), "")
        return any(
            re.search(rf"(?:\+\+|--)\s*{counter}\b|\b{counter}\s*(?:\+\+|--|[-+*/%&|^]?=(?!=))", self.code(n))
            for n in [body]
        )

    def _declared(self, node: Node | None) -> Iterator[str]:
        for one in node.children_by_field_name("declarator") if node is not None else ():
            inner: Node | None = one
            while inner is not None and inner.type != "identifier":
                inner = inner.child_by_field_name("declarator") or next(iter(inner.named_children), None)
            yield self.code(inner)

    def _is_of(self, jump: Node, loop: Node) -> bool:
        outer = jump.parent
        while outer is not None and outer.id != loop.id:
            if outer.type in LOOPS or (outer.type == "switch_statement" and jump.type == "break_statement"):
                return False
            outer = outer.parent
        return True

    # launches

    def _launches(self, limit: str) -> Iterator[TextEdit | None]:
        """The grid of every launch; None for one that is not understood."""
        for site in self.model.launches_of(self.kernel):
            size, block = self._on_host(site, limit, 0), self._block(site)
            if site.path or not size or not block or "<<<" not in self.text.slice(site.span):
                yield None
                continue
            yield TextEdit(site.grid_span, f"({size} + {block} - 1) / {block}")

    def _block(self, site: LaunchSite) -> str:
        """Threads of a block along x, where it has no more; "" where that is not known."""
        plain = re.fullmatch(r"\w+", site.block.strip())
        is_dim3 = re.search(rf"\bdim3\b[^;]*\b{re.escape(site.block.strip())}\b", self.text.text)
        if plain and not is_dim3:
            return site.block.strip()
        known = site.block_value[0] is not None and site.block_value[1:] == (1, 1)
        return str(site.block_value[0]) if known else ""

    def _on_host(self, site: LaunchSite, expression: str, depth: int) -> str:
        """An expression of the kernel's as the launch would say it; "" where it cannot."""
        if depth > _DEEP or re.search(r"\[|->|\w\s*\(", _CAST.sub("", expression.replace(" ", ""))):
            return ""
        given = dict(zip((p.name for p in self.kernel.parameters), site.arguments, strict=False))
        parts, at = list[str](), 0
        for word in _WORD.finditer(expression):
            new = word[0]
            if expression[: word.start()].rstrip().endswith("."):
                continue
            if word[0] in given:
                new = given[word[0]].strip()
                if "(" in new or "&" in new:
                    return ""
                new = new if _ATOM.fullmatch(new) else f"({new})"
            elif word[0] in self.values:
                new = self._on_host(site, self.values[word[0]][0], depth + 1)
                if not new:
                    return ""
            elif not self._is_constant(word[0]):
                return ""
            parts += [expression[at : word.start()], new]
            at = word.end()
        whole = "".join([*parts, expression[at:]])
        closed = whole.startswith("(") and matching(whole, 0) == len(whole)
        return whole if closed or _ATOM.fullmatch(whole) else f"({whole})"

    def _is_constant(self, name: str) -> bool:
        known = any(c.name == name for c in self.model.constants) or self.file.macros.get(name) is not None
        return known or name in ("size_t", "int", "long", "unsigned")
