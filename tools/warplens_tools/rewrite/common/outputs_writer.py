# SPDX-License-Identifier: Apache-2.0
"""The code of a kernel whose threads work out several outputs each, along one axis of the launch."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.rewrite.base import Refused, RewriteResult
from warplens_tools.rewrite.common.carried import Carried
from warplens_tools.rewrite.common.declared import Declared, declared_in, is_set, unqualified
from warplens_tools.rewrite.common.guarded_head import guarded_head
from warplens_tools.rewrite.common.insertion import start_with_pragmas
from warplens_tools.rewrite.common.launches import Launches, rounded_up
from warplens_tools.rewrite.common.outputs import THREAD, Axis, Outputs
from warplens_tools.rewrite.common.reading import (
    View,
    assigned,
    calls,
    field,
    renamed,
    squeezed,
    statements,
    stores,
    unwrapped,
)
from warplens_tools.rewrite.common.sizes import limit_of
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.rewrite.common.thread_forms import places_thread
from warplens_tools.text import TextEdit

#: What an array begins as, where that is nothing or zeros.
_ZEROS = frozenset({"", "{}", "{0}", "{0.0f}", "{0.f}"})
#: Four sums hide the four cycles of a multiply-add, and share a load among four.
OUTPUTS = 4


class OutputsWriter:
    """The kernel with several outputs a thread, along the last of its axes."""

    def __init__(self, view: View, outputs: Outputs, launches: Launches, *, axis: Axis | None = None) -> None:
        self.view, self.outputs, self.launches = view, outputs, launches
        self.axis: Axis = axis or outputs.axes[-1]
        self.limit = self.axis.limit or limit_of(view, launches, self.axis.letter)
        self.style = Style(view)
        self.count = self.counted()
        self.counter = self.style.local("o")
        self.first = self.style.local(f"{self.axis.name}0")
        self._check()
        #: What the work itself declares between its loops.
        self.late = [d for n in outputs.work if n.type == "declaration" for d in _declared_late(view, n)]
        if any(d.extents for d in self.late) and any(
            THREAD in outputs.rests[d.name] for d in outputs.declared
        ):
            raise Refused("its threads have several outputs already")
        self.states = self._states()
        self.instances = {s.name: f"{s.name}[{self.counter}]" for s in self.states}

    def counted(self) -> str:
        """The constant that says how many."""
        return self.style.constant("kOutputs", str(OUTPUTS), "of a thread")

    def _check(self) -> None:
        """That the work is the same for each output."""
        view = self.view
        code = " ".join(view.code(n) for n in self.outputs.work)
        if places_thread(code, "".join(a.letter for a in self.outputs.axes)):
            raise Refused("the work rests on the thread's place in its block")
        nodes = [n for w in self.outputs.work for n in walk(w)]
        if any(n.type in ("return_statement", "break_statement", "goto_statement") for n in nodes):
            raise Refused("the work is left early")
        if any(
            name.startswith(("atomic", "__shfl")) for w in self.outputs.work for name, _ in calls(w, view)
        ):
            raise Refused("the work shares memory with other threads")

    def _moves(self, node: Node) -> bool:
        """Whether a statement changes a parameter for all outputs alike: `A += batch * rows * columns;`.

        Raises:
            Refused: it does so for each output in another way, or in each step of a loop.
        """
        changed = {name for name, place in assigned(node, self.view) if place.type == "identifier"}
        alike = self.axis.name not in self.outputs.resting(self.view.names(node))
        if changed & self.view.parameters and not (
            alike and node.type == "expression_statement" and len(changed) == 1
        ):
            raise Refused("the work changes what the kernel is given")
        return bool(changed & self.view.parameters)

    def _states(self) -> list[Declared]:
        work = self.outputs.work
        if any(name == self.axis.name for w in work for name, _ in assigned(w, self.view)):
            raise Refused("the output's number changes")
        found = []
        for one in self.outputs.declared:
            rests = self.axis.name in self.outputs.rests[one.name]
            if is_set(self.view, work, one) or (rests and not one.is_index):
                if "auto" in one.type.split() and self.view.pointers.pointer(one.value) is not None:
                    raise Refused(f"the type of {one.name} is not written")
                found.append(one)
        return [*found, *self.late]

    def result(self) -> RewriteResult:
        """All edits."""
        view, newline = self.view, self.view.text.newline
        lines = [self._top(), self._first(), *self.work()]
        body = self.style.lines("\n".join(n for n in lines if n))
        text = f"{{{newline}{body}{newline}{self.style.margin}}}"
        edit = TextEdit(view.text.span(view.start(view.body), view.end(view.body)), text)
        self._relaunch()
        edits = (self.style.constants(), edit, *self.launches.edits())
        return RewriteResult(edits, title=f"Work out {OUTPUTS} outputs a thread")

    def work(self) -> list[str]:
        """What is done for all of a thread's outputs together."""
        late = {d.name for d in self.late}
        lines = [self._state(s) for s in self.states if s.name not in late]
        for node in self.outputs.work:
            if self._moves(node):
                lines.append(self.style.code(self.view.written(node)))
            elif node.type == "declaration":
                lines += [self._state(d) for d in self.late if d.statement.id == node.id]
            elif node.type == "for_statement" and self._is_joint(node):
                lines.append(self._nest(node, Carried()))
            else:
                lines.append(self._end(node))
        return lines

    def _is_joint(self, loop: Node) -> bool:
        """Whether each step of a loop is done for all outputs before the next."""
        return not stores_memory(self.view, loop)

    def _relaunch(self) -> None:
        index = "xyz".index(self.axis.letter)
        for launch in self.launches.read():
            self.launches.set(launch.grid, {index: rounded_up(launch.grid.axis(index), self.count)})

    # the head

    def _top(self) -> str:
        names = {s.name for s in self.states}
        others = [a for a in self.outputs.axes if a.name != self.axis.name]
        own = self.axis.name
        kept = [
            d for d in self.outputs.declared if d.name not in names and own not in self.outputs.rests[d.name]
        ]
        tests = [f"{a.name} >= {a.limit}" for a in others if a.limit]
        tests += [f"!({c})" for c in self.outputs.uniform]
        return "\n".join(guarded_head(self.view, others, kept, tests))

    def _first(self) -> str:
        """The first output of the thread; neighbours along x stay neighbours."""
        letter, written = self.axis.letter, unqualified(self.axis.type)
        if letter == "x":
            value = f"blockIdx.x * blockDim.x * {self.count} + threadIdx.x"
        else:
            value = f"(blockIdx.{letter} * blockDim.{letter} + threadIdx.{letter}) * {self.count}"
        added = f" + {self.axis.offset}" if self.axis.offset else ""
        return f"const {written} {self.first} = {value}{added};"

    def _index(self) -> str:
        step = f"{self.counter} * blockDim.x" if self.axis.letter == "x" else self.counter
        return f"{self.first} + {step}"

    def _declaration(self, one: Declared) -> str:
        value = f" = {self.view.written(one.value)}" if one.value is not None else ""
        return f"{one.type} {one.stars}{one.name}{value};"

    def _each(self, inner: str) -> str:
        head = f"#pragma unroll\nfor (int {self.counter} = 0; {self.counter} < {self.count}; ++{self.counter}) {{"
        return f"{head}\n{indented(inner)}\n}}"

    def _state(self, one: Declared) -> str:
        # what a pointer points to stays const
        written = one.type if one.stars else unqualified(one.type)
        declared = f"{written} {one.stars}{one.name}[{self.count}]{one.extents}"
        value = self.view.written(one.value) if one.value is not None else ""
        if one.extents:
            return f"{declared}{' = {}' if one.text else ''};"
        if re.fullmatch(r"0*\.?0*[fFuUlL]?", value):
            return f"{declared}{' = {}' if value else ''};"
        names = self.view.names(one.value) if one.value is not None else frozenset()
        start = f"{one.name}[{self.counter}] = {renamed(value, self.instances_before(one))};"
        return f"{declared};\n{self._each(self._with(names, start, Carried()))}"

    def instances_before(self, one: Declared) -> dict[str, str]:
        """The states that are declared before this one."""
        names = [s.name for s in self.states]
        return {n: f"{n}[{self.counter}]" for n in names[: names.index(one.name)]}

    # the loops

    def _with(self, names: frozenset[str], inner: str, carried: Carried, *, clamped: bool = True) -> str:
        """Code for one output with the locals before it that it needs."""
        states = {s.name for s in self.states}
        needed = set(names)
        for skip in carried.skips:
            needed |= self.view.names(skip)
        for test in carried.tests:
            needed |= set(re.findall(r"[A-Za-z_]\w*", test))
        kept: list[str] = []
        for one in reversed([*self.outputs.declared, *carried.locals]):
            is_outer = one in carried.locals or self.axis.name in self.outputs.rests[one.name]
            if one.name in needed and one.name not in states and is_outer:
                kept.append(renamed(self._declaration(one), self.instances))
                needed |= self.view.names(one.value) if one.value is not None else frozenset()
        lines = []
        if self.axis.name in needed:
            value = (
                f"{self._index()} < {self.limit} ? {self._index()} : {self.limit} - 1"
                if clamped
                else self._index()
            )
            lines.append(f"{self.axis.type} {self.axis.name} = {value};")
        lines += kept[::-1]
        lines += [self.style.code(self.view.written(s)) for s in carried.skips]
        if carried.tests:
            return "\n".join([*lines, f"if ({' && '.join(carried.tests)}) {{", indented(inner), "}"])
        return "\n".join([*lines, inner])

    def _rests(self, names: frozenset[str], carried: Carried) -> bool:
        """Whether an expression differs between the outputs of a thread."""
        states = {s.name for s in self.states}
        inside = {d.name for d in carried.locals}
        return bool(names & (states | inside)) or self.axis.name in self.outputs.resting(names)

    def _nest(self, loop: Node, carried: Carried) -> str:
        view = self.view
        body = field(loop, "body")
        names = frozenset(
            view.code(n) for c in loop.children if c.id != body.id for n in walk(c) if n.type == "identifier"
        )
        if self._rests(names, carried):
            raise Refused("a loop is not as long for all outputs")
        begin, opening = view.start(loop), view.start(body)
        head = " ".join(view.text.text[begin:opening].split())
        inner = indented(self._group(statements(body), carried))
        return "\n".join([*self._pragmas(loop), f"{head} {{", inner, "}"])

    def _pragmas(self, node: Node) -> list[str]:
        """Those that belong to a statement, a line each."""
        begin = self.view.start(node)
        above = self.view.text.text[start_with_pragmas(self.view.file, begin) : begin]
        return [line.strip() for line in above.splitlines() if line.strip()]

    def _group(self, nodes: list[Node], carried: Carried) -> str:
        """The statements of a loop's body: runs of plain ones for each output, and loops."""
        lines: list[str] = []
        run: list[Node] = []
        for at, node in enumerate(nodes):
            later = any(_has_loop(n) for n in nodes[at:])
            if node.type == "for_statement":
                lines += [self._run(run, carried), self._nest(node, carried)]
                run = []
            elif later and node.type == "declaration":
                carried, text = self._local(node, nodes[at + 1 :], carried)
                lines.append(text)
            elif later and node.type == "if_statement":
                carried, text = self._branch(node, carried, last=at == len(nodes) - 1)
                lines += [self._run(run, carried), text]
                run = []
            elif _has_loop(node) or (later and "continue" in self.view.code(node)):
                raise Refused("a loop stands in a statement that is not understood")
            else:
                run.append(node)
        return "\n".join(n for n in [*lines, self._run(run, carried)] if n)

    def _local(self, node: Node, behind: list[Node], carried: Carried) -> tuple[Carried, str]:
        """A declaration before an inner loop: kept for each output where what is behind changes it, once for all
        outputs, or again in the loop for each.
        """
        every = declared_in(self.view, node)
        if any(is_set(self.view, behind, d) for d in every):
            if (carried.locals or carried.skips or carried.tests) and not all(
                _begins_as_number(d) for d in every
            ):
                raise Refused("a loop's own variables would have to be kept for each output")
            self.states += every
            self.instances |= {d.name: f"{d.name}[{self.counter}]" for d in every}
            return carried, "\n".join(self._state(d) for d in every)
        names = frozenset().union(*(self.view.names(d.value) for d in every if d.value is not None))
        if not self._rests(names, carried):
            return carried, self.style.code(self.view.written(node))
        if not all(d.is_index and d.value is not None for d in every):
            raise Refused("a loop's own variables would have to be kept for each output")
        return msgspec.structs.replace(carried, locals=(*carried.locals, *every)), ""

    def _branch(self, node: Node, carried: Carried, *, last: bool) -> tuple[Carried, str]:
        """`if (outside) continue;` and `if (inside) { for … }` before or around an inner loop."""
        condition = unwrapped(field(node, "condition"))
        inside = statements(field(node, "consequence"))
        if node.child_by_field_name("alternative") is not None:
            raise Refused("a loop stands in one branch of two")
        if len(inside) == 1 and inside[0].type == "continue_statement":
            return msgspec.structs.replace(carried, skips=(*carried.skips, node)), ""
        if _has_loop(node) and (last or not self._rests(self.view.names(condition), carried)):
            written = self.view.written(condition)
            below = msgspec.structs.replace(carried, tests=(*carried.tests, written))
            if not self._rests(self.view.names(condition), carried):
                inner = self._group(inside, carried)
                return carried, f"if ({written}) {{\n{indented(inner)}\n}}"
            return carried, self._group(inside, below)
        raise Refused("a loop stands beside a condition that is not understood")

    def _run(self, run: list[Node], carried: Carried) -> str:
        """Plain statements: once where they are the same for all outputs, else for each."""
        if not run:
            return ""
        once: list[str] = []
        own: set[str] = set()
        while run and run[0].type == "declaration":
            every = declared_in(self.view, run[0])
            names = frozenset().union(*(self.view.names(d.value) for d in every if d.value is not None))
            if self._rests(names, carried) or names & own or carried.skips or carried.tests:
                break
            once.append(self.style.code(self.view.written(run[0])))
            run = run[1:]
        if not run:
            return "\n".join(once)
        names = frozenset().union(*(self.view.names(n) for n in run))
        text = "\n".join(self.style.code(renamed(self.view.written(n), self.instances)) for n in run)
        return "\n".join([*once, self._each(self._with(names, text, carried))])

    def _end(self, node: Node) -> str:
        """What is done with each output that there is."""
        text = self.style.code(renamed(self.view.written(node), self.instances))
        text = "\n".join([*self._pragmas(node), text])
        names = self.view.names(node) | {self.axis.name}
        inner = self._with(frozenset(names), text, Carried(), clamped=False)
        first, _, rest = inner.partition("\n")
        test = f"{self.axis.name} < {self.limit}"
        guarded = f"if ({test}) {rest}" if "\n" not in rest else f"if ({test}) {{\n{indented(rest)}\n}}"
        return self._each(f"{first}\n{guarded}")


def _declared_late(view: View, statement: Node) -> list[Declared]:
    """As `declared_in`; also the thread's own array, if it is declared alone and begins as zeros or as nothing.

    Raises:
        Refused: as `declared_in`.
    """
    declarators = statement.children_by_field_name("declarator")
    value = declarators[0].child_by_field_name("value") if len(declarators) == 1 else None
    inner = field(declarators[0], "declarator") if value is not None else declarators[0]
    if len(declarators) != 1 or inner.type != "array_declarator":
        return declared_in(view, statement)
    name, start = field(inner, "declarator"), squeezed(view.code(value)) if value is not None else ""
    written = view.code(statement)[: declarators[0].start_byte - statement.start_byte].strip()
    if (
        name.type != "identifier"
        or "__shared__" in written
        or "static" in written.split()
        or start not in _ZEROS
    ):
        raise Refused("the kernel declares an array or shared memory")
    extents = view.code(inner)[name.end_byte - inner.start_byte :]
    return [Declared(view.code(name), written, "", None, statement, start, extents)]


def _begins_as_number(one: Declared) -> bool:
    """Whether a variable begins as a literal or as nothing, whatever was declared or tested before it."""
    return one.value is None or one.value.type == "number_literal"


def stores_memory(view: View, loop: Node) -> bool:
    """Whether a loop writes memory, not only an array of the thread's own."""
    return any(view.space(e) != "local" for e in stores(view, loop))


def _has_loop(node: Node) -> bool:
    return any(n.type in LOOPS for n in walk(node))
