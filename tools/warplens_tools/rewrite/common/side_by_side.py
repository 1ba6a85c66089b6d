# SPDX-License-Identifier: Apache-2.0
"""A kernel's statements for several outputs of a thread that lie side by side, their windows in registers.

Statements are done for one output after another, loops over windows for all outputs at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.counting import Counting, counting
from warplens_tools.rewrite.common.declared import Declared, plainly_declared_in, unqualified
from warplens_tools.rewrite.common.reading import (
    WORD,
    View,
    assigned,
    field,
    renamed,
    squeezed,
    statements,
    stores,
    substituted,
)
from warplens_tools.rewrite.common.sliding import (
    Sliding,
    SlidingReader,
    begin_of,
    condition_of,
    ends_apart,
    kind_of,
)
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.rewrite.common.tested_windows import Tested
from warplens_tools.rewrite.common.window_code import WindowCode

#: Code of an iteration up to which it is unrolled, so that no element is moved from register to register.
_SHORT = 120
_MEMORY = frozenset({"subscript_expression", "pointer_expression", "call_expression"})
_NAMES_TYPES = frozenset(
    {"alias_declaration", "type_definition", "using_declaration", "static_assert_declaration"}
)
_PURE = frozenset({"min", "max", "static_cast<int>", "static_cast<size_t>", "int", "size_t"})

Statement = Node | str


class SideBySide:
    """The code of `count` outputs a thread: `axis` is `first` + 0, 1, …"""

    def __init__(
        self, view: View, style: Style, axis: Declared, count: str, tested: Mapping[int, Tested] | None = None
    ) -> None:
        """`tested`: of loops, by their number in the kernel, the tests that the view leaves out."""
        self.view, self.style, self.axis, self.count = view, style, axis, count
        loops = [n for n in walk(view.body) if n.type == "for_statement"]
        self._tested = {loops[at].id: one for at, one in (tested or {}).items()}
        self.counter, self.first = style.local("o"), style.local(f"{axis.name}0")
        self.live, self.all = style.local("live"), style.local("all")
        self._code = WindowCode(view, axis.name, self.first, self.counter, count)
        #: How many windows there are.
        self.windows = 0
        every = list(assigned(view.body, view))
        self._changed = frozenset(name for name, _ in every)
        self._moved_on = frozenset(name for name, place in every if place.type == "identifier")
        self._reader = SlidingReader(view, axis.name)
        #: Variables that may differ from output to output, and how those that are kept are called.
        self._moving = {axis.name}
        self._kept: dict[str, str] = {}
        self._ends = self._ending = self._known = False

    def beginning(self, nodes: Sequence[Statement]) -> list[str]:
        """What stands before all statements."""
        self._ends = any("return" in WORD.findall(self._said(n)) for n in nodes)
        if not self._ends:
            return []
        return [f"bool {self.live}[{self.count}];", self._each(f"{self.live}[{self.counter}] = true;")]

    def block(self, nodes: Sequence[Statement]) -> str:
        """Statements of one block.

        Raises:
            Refused: one cannot be done for several outputs.
        """
        lines, run = list[str](), list[Statement]()
        for at, node in enumerate(nodes):
            if isinstance(node, Node) and self._is_axis(node):
                lines += self._beside_axis(node)
                continue
            if isinstance(node, Node) and (
                node.type in _NAMES_TYPES or self._is_uniform(node) or self._skips(node)
            ):
                lines.append(self.style.code(self.view.written(node)))
                continue
            nest = node.type == "for_statement" and self._is_nest(node) if isinstance(node, Node) else False
            sliding = self._sliding(node) if isinstance(node, Node) and not nest else None
            if sliding is None and not nest:
                run.append(node)
                continue
            lines += [self._run(run, nodes[at:]), self._asked()]
            run = []
            if sliding is not None:
                lines.append(self._slide(sliding))
            elif isinstance(node, Node):
                lines.append(self._nested(node))
        return "\n".join(line for line in [*lines, self._run(run, [])] if line)

    # what there is

    def _said(self, node: Statement) -> str:
        return node if isinstance(node, str) else self.view.code(node)

    def _names(self, node: Statement) -> frozenset[str]:
        """What a statement names, and the tests that were left out of it."""
        if isinstance(node, str):
            return frozenset(WORD.findall(node))
        bodies = (self._tested[n.id].body for n in walk(node) if n.id in self._tested)
        return self.view.names(node).union(*(WORD.findall(text) for body in bodies for text in body))

    def _is_axis(self, node: Node) -> bool:
        return node.id == self.axis.statement.id

    def _beside_axis(self, node: Node) -> list[str]:
        """What is declared with the output's number."""
        rest = [d for d in plainly_declared_in(self.view, node) if d.name != self.axis.name]
        if any(d.value is not None and self.view.names(d.value) & self._moving for d in rest):
            raise Refused("the output's number is declared with what rests on it")
        if any(d.name in self._changed for d in rest):
            raise Refused("the output's number is declared with what changes")
        return [
            f"{d.type} {d.stars}{d.name} = {self.view.written(d.value)};" for d in rest if d.value is not None
        ]

    def _is_uniform(self, node: Node) -> bool:
        """Whether a declaration is the same for all outputs, and reads no memory."""
        every = plainly_declared_in(self.view, node)
        return bool(every) and all(
            d.value is not None
            and d.name not in (self._moved_on if d.stars else self._changed)
            and not self.view.names(d.value) & self._moving
            and not any(n.type in _MEMORY and not self._is_pure(n) for n in walk(d.value))
            for d in every
        )

    def _skips(self, node: Node) -> bool:
        """Whether a statement leaves an iteration out for all outputs alike."""
        condition = node.child_by_field_name("condition") if node.type == "if_statement" else None
        if condition is None or node.child_by_field_name("alternative") is not None:
            return False
        inside = statements(field(node, "consequence"))
        asks = any(n.type in _MEMORY and not self._is_pure(n) for n in walk(condition))
        alike = not self.view.names(condition) & (self._moving | self._changed)
        return len(inside) == 1 and inside[0].type == "continue_statement" and alike and not asks

    def _is_pure(self, node: Node) -> bool:
        function = node.child_by_field_name("function") if node.type == "call_expression" else None
        return function is not None and self.view.code(function) in _PURE

    def _is_nest(self, loop: Node) -> bool:
        """Whether a loop that is as long for all outputs has one over windows inside."""
        inner = [n for n in walk(field(loop, "body")) if n.type == "for_statement"]
        if not inner or self._sliding(loop) is not None or not any(self._sliding(n) for n in inner):
            return False
        body, known = field(loop, "body"), counting(self.view.expanded, loop)
        if known is None or not known.declared:
            return False
        skips = [n for n in statements(body) if self._skips(n)]
        leaves = any(
            n.type == "continue_statement" and not any(holds(one, n) for one in [*skips, *inner])
            for n in walk(body)
        )
        stored = any(self.view.space(e) != "local" for e in stores(self.view, body))
        tested = any(n.id in self._tested for n in walk(loop))
        apart = not tested and ends_apart(self.view, known, frozenset(self._moving))
        alike = apart or not self._heads(loop) & self._moving
        return alike and not leaves and not stored

    def _sliding(self, node: Node) -> Sliding | None:
        return self._reader.read(node, frozenset(self._moving))

    # statements

    def _each(self, inner: str) -> str:
        head = (
            f"#pragma unroll\nfor (int {self.counter} = 0; {self.counter} < {self.count}; ++{self.counter}) "
        )
        return f"{head}{inner}" if "\n" not in inner else f"{head}{{\n{indented(inner)}\n}}"

    def _run(self, run: Sequence[Statement], rest: Sequence[Statement]) -> str:
        """Statements that are done for one output after another."""
        if not run:
            return ""
        later = frozenset[str]().union(*(self._names(n) for n in rest))
        arrays, inner = list[str](), list[str]()
        for node in run:
            if isinstance(node, Node) and node.type == "declaration":
                inner += self._declared(node, later, arrays)
            else:
                inner.append(self._ended(node))
        text = self._with_axis("\n".join(inner))
        self._ending = self._ending or any("return" in WORD.findall(self._said(n)) for n in run)
        self._known = self._known and not any("return" in WORD.findall(self._said(n)) for n in run)
        return "\n".join([*arrays, self._each(text)]) if inner else "\n".join(arrays)

    def _declared(self, node: Node, later: frozenset[str], arrays: list[str]) -> list[str]:
        """A declaration, of which what is needed later is kept for each output in `arrays`."""
        every = plainly_declared_in(self.view, node)
        if not every:
            names = {self.view.code(n) for n in walk(node) if n.type == "identifier"}
            if names & later - self.view.parameters - {self.axis.name}:
                raise Refused("an array of the thread's own would have to be kept for each output")
            return [self.style.code(renamed(self.view.written(node), self._kept))]
        lines = list[str]()
        for one in every:
            value = renamed(self.view.written(one.value), self._kept) if one.value is not None else ""
            if one.name not in later:
                lines.append(f"{one.type} {one.stars}{one.name}{f' = {value}' if value else ''};")
                continue
            if self._times_declared(one.name) != 1 or "auto" in one.type.split() or "&" in one.stars:
                raise Refused(f"{one.name} could not be kept for each output")
            kind = unqualified(one.type) if not one.stars else one.type
            stars = one.stars.replace("__restrict__", "").replace("const", "").strip()
            zero = re.fullmatch(r"0*\.?0*[fFuUlL]*", value) is not None and value != ""
            arrays.append(f"{kind} {stars}{one.name}[{self.count}]{' = {}' if zero else ''};")
            self._kept[one.name] = f"{one.name}[{self.counter}]"
            self._moving.add(one.name)
            if value and not zero:
                lines.append(f"{self._kept[one.name]} = {value};")
        return lines

    def _times_declared(self, name: str) -> int:
        names = (n for n in walk(self.view.body) if n.type == "identifier" and self.view.code(n) == name)
        kinds = ("init_declarator", "declaration", "pointer_declarator", "array_declarator")
        return sum(
            n.parent is not None
            and n.parent.type in kinds
            and n in (*n.parent.children_by_field_name("declarator"),)
            for n in names
        )

    def _ended(self, node: Statement) -> str:
        """A statement in which an output ends where the thread did."""
        ended = f"{{\n  {self.live}[{self.counter}] = false;\n  continue;\n}}"
        if isinstance(node, str):
            return renamed(node, self._kept).replace("return;", ended)
        found = [
            (n, f"{{ {self.live}[{self.counter}] = false; continue; }}")
            for n in walk(node)
            if n.type == "return_statement"
        ]
        return self.style.code(renamed(substituted(self.view, node, found), self._kept))

    def _with_axis(self, text: str) -> str:
        """Code for one output, left out for those that have ended."""
        lines = [f"if (!{self.live}[{self.counter}]) continue;"] if self._ending else []
        if self.axis.name in WORD.findall(text):
            lines.append(
                f"const {unqualified(self.axis.type)} {self.axis.name} = {self.first} + {self.counter};"
            )
        return "\n".join([*lines, text])

    def _asked(self) -> str:
        """Whether all outputs are still there."""
        if not self._ending or self._known:
            return ""
        kind = "" if self.all in self._kept else "bool "
        self._kept[self.all], self._known = self.all, True
        each = self._each(f"{self.all} = {self.all} && {self.live}[{self.counter}];")
        return f"{kind}{self.all} = true;\n{each}"

    # loops

    def _nested(self, loop: Node) -> str:
        """A loop around one over windows."""
        body, known = field(loop, "body"), counting(self.view.expanded, loop)
        if known is None or not self._heads(loop) & self._moving:
            head = self.view.text.text[self.view.start(loop) : self.view.start(body)]
            inner = self.block(statements(body))
            return f"{' '.join(head.split())} {{\n{indented(inner)}\n}}"
        lines, least, _ = self._together(known, None)
        kept, moving, ending = dict(self._kept), set(self._moving), self._ending
        # all outputs are there, and what the loop declares is each iteration's own
        self._ending = False
        inner = self.block(statements(body))
        self._kept, self._moving, self._ending = kept, moving, ending
        kind, name = kind_of(self.view, known), known.variable
        head = f"for ({kind} {name} = {begin_of(self.view, known)}; {name} < {least}; ++{name}) {{"
        lines += [f"{head}\n{indented(inner)}\n}}", self._alone(known, least, self._text(body, []))]
        return "\n".join(lines)

    def _heads(self, loop: Node) -> frozenset[str]:
        """What a loop's head names."""
        body = field(loop, "body")
        return frozenset[str]().union(*(self.view.names(c) for c in loop.named_children if c.id != body.id))

    def _limit(self, loop: Counting, at: str) -> str:
        """Where the loop ends for output number `at`."""
        names = {name: f"{name}[{at}]" for name in self._kept if name != self.all}
        place = self.first if at == "0" else f"({self.first} + {at})"
        text = renamed(self.view.written(loop.bounds[0]), names | {self.axis.name: place})
        if "<=" not in condition_of(self.view, loop):
            return text
        return f"{text} + 1" if re.fullmatch(r"[\w.\[\] +*]+", text) else f"({text}) + 1"

    def _together(self, loop: Counting, tested: Tested | None) -> tuple[list[str], str, bool]:
        """Code that finds up to where all outputs have a loop's iterations, how that is called, and whether some may
        have more.
        """
        kind, begin = kind_of(self.view, loop), begin_of(self.view, loop)
        differs = bool(self.view.names(loop.bounds[0]) & self._moving)
        lines, least = list[str](), self._limit(loop, "0")
        if differs or self._ending or tested is not None:
            limit, least = least, self.style.local("least")
            lines.append(f"{kind} {least} = {limit};")
        if differs:
            other = self._limit(loop, self.counter)
            lines.append(self._each(f"{least} = {other} < {least} ? {other} : {least};"))
        if self._ending:
            lines.append(f"if (!{self.all}) {least} = {begin};")
        if tested is not None:
            lines += self._inside(tested, least, begin)
        return lines, least, differs

    def _alone(self, loop: Counting, least: str, body: str) -> str:
        """What single outputs have more of a loop than all of them."""
        kind, begin = kind_of(self.view, loop), begin_of(self.view, loop)
        start, limit = f"{least} > {begin} ? {least} : {begin}", self._limit(loop, self.counter)
        head = f"for ({kind} {loop.variable} = {start}; {loop.variable} < {limit}; ++{loop.variable}) {{"
        return self._each(self._with_axis(f"#pragma unroll 1\n{head}\n{indented(body)}\n}}"))

    def _slide(self, sliding: Sliding) -> str:
        """The loop for all outputs at once, then for each what it has more than others."""
        loop, view = sliding.loop, self.view
        tested = self._tested.get(loop.node.id)
        kind, begin = kind_of(self.view, loop), begin_of(self.view, loop)
        lines, least, differs = self._together(loop, tested)
        names = [self.style.local(w.name) for w in sliding.windows]
        named = list(zip(names, sliding.windows, strict=True))
        lines += [f"{w.type} {n}[{self.count}];" for n, w in named]
        filled = "\n".join(self._code.filled(w, n, loop.variable, begin) for n, w in named)
        lines.append(f"if ({least} > {begin}) {{\n{indented(filled)}\n}}")
        pairs = [(p, f"{n}[{self.counter}]") for n, w in named for p in w.places]
        inner = [self._code.moved(w, n) for n, w in named]
        inner.append(self._each(self._one(self._text(loop.body, pairs))))
        short = len(squeezed(view.code(loop.body))) <= _SHORT
        pragma = self._unrolled() if short else ""
        head = f"for ({kind} {loop.variable} = {begin}; {loop.variable} < {least}; ++{loop.variable}) {{"
        lines.append(f"{pragma}{head}\n{indented(chr(10).join(inner))}\n}}")
        if differs or self._ending or tested is not None:
            slow = self._text(loop.body, []) if tested is None else self._written(tested.body)
            lines.append(self._alone(loop, least, slow))
        self.windows += len(names)
        return "\n".join(lines)

    def _unrolled(self) -> str:
        """The pragma that unrolls a loop once for each output: a macro has no meaning there."""
        if not self.style.defines:
            return f"#pragma unroll {self.count}\n"
        number = self.style.local("unrolled")
        return f"constexpr int {number} = {self.count};\n#pragma unroll {number}\n"

    def _inside(self, tested: Tested, least: str, begin: str) -> list[str]:
        """That the loop for all outputs has no iteration where one of them fails a test."""
        inside = self.style.local("inside")
        place = {self.axis.name: f"({self.first} + {self.counter})"}
        holds = " && ".join(renamed(one, self._kept | place) for one in tested.holds)
        each = self._each(f"{inside} = {inside} && {holds};")
        return [f"bool {inside} = true;", each, f"if (!{inside}) {least} = {begin};"]

    def _written(self, body: Sequence[str]) -> str:
        """Statements as the kernel has them, for one output."""
        return "\n".join(self.style.code(renamed(one, self._kept)) for one in body)

    def _one(self, text: str) -> str:
        """Code for one output of those that are all there."""
        ending, self._ending = self._ending, False
        found = self._with_axis(text)
        self._ending = ending
        return found

    def _text(self, body: Node, pairs: Sequence[tuple[Node, str]]) -> str:
        """The body for one output."""
        found = list[str]()
        for node in statements(body):
            inside = [
                (n, t) for n, t in pairs if node.start_byte <= n.start_byte and n.end_byte <= node.end_byte
            ]
            found.append(self.style.code(renamed(substituted(self.view, node, inside), self._kept)))
        return "\n".join(found)
