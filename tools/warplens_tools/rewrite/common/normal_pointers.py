# SPDX-License-Identifier: Apache-2.0
"""Pointers that a kernel moves, written as pointers that stand still.

`for (…; ++i, ++p) sum += *p;` reads `p[i]`, and so does `sum += *p++;`; `A += batch * n;` at the head of a kernel
begins a pointer of its own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel, Parameter
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, holds, walk
from warplens_tools.text import SourceText, TextEdit

_PLAIN = re.compile(r"[\w.]+")
_JUMPS = frozenset({"continue_statement", "break_statement", "return_statement", "goto_statement"})


class _Walk(msgspec.Struct, frozen=True):
    """A pointer that a loop moves by the same in every iteration."""

    name: str
    #: Elements from one iteration to the next, as written.
    step: str
    #: What moves it: `p++` of the loop's head, a statement, or the whole of `*p++`.
    moved: Node


def still(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edits for the first pointer that moves; () where none is understood."""
    body = file.root.descendant_for_byte_range(*_range(text, kernel))
    if body is None or body.type != "compound_statement":
        return ()
    reader = _Moved(text, file, body)
    for parameter in kernel.parameters:
        edits = reader.begun(parameter) if parameter.pointer else ()
        if edits:
            return edits
    for loop in (n for n in walk(body) if n.type == "for_statement"):
        edits = reader.walked(loop)
        if edits:
            return edits
    return ()


def _range(text: SourceText, kernel: Kernel) -> tuple[int, int]:
    span = kernel.body
    return text.offset(span.line, span.column), text.offset(span.end_line, span.end_column)


class _Moved:
    """The pointers of one kernel's body."""

    def __init__(self, text: SourceText, file: SourceTree, body: Node) -> None:
        self.text, self.file, self.body = text, file, body

    def code(self, node: Node) -> str:
        """A node's code."""
        return self.file.code_of(node).strip()

    def _uses(self, node: Node, name: str) -> list[Node]:
        return [n for n in walk(node) if n.type == "identifier" and self.code(n) == name]

    def _changes(self, name: str) -> list[Node]:
        """What sets or steps a pointer in the body, or might."""
        found = []
        for use in self._uses(self.body, name):
            outer = use.parent
            if outer is None:
                continue
            is_left = outer.type == "assignment_expression" and _is(outer, "left", use)
            is_address = outer.type == "pointer_expression" and self.code(outer).startswith("&")
            if is_left or is_address or outer.type == "update_expression":
                found.append(outer)
        return found

    # a parameter that is moved once

    def begun(self, parameter: Parameter) -> tuple[TextEdit, ...]:
        """`A += n;` as the start of a pointer of its own."""
        name = parameter.name
        changes = self._changes(name)
        # what moves it further behind that moves the pointer of its own
        statement = changes[0].parent if changes and changes[0].type == "assignment_expression" else None
        if statement is None or statement.type != "expression_statement" or statement.parent != self.body:
            return ()
        if not all(self._steps_on(change) for change in changes[1:]):
            return ()
        begin = self._advance(changes[0], name)
        uses = self._uses(self.body, name)
        first = next(n for n in uses if n.start_byte >= statement.start_byte)
        if begin is None or uses[0].id != first.id or self._is_declared(name):
            return ()
        new = self._fresh(name)
        element = re.sub(r"\b(?:__restrict__|__restrict|restrict)\b|(?<=\*)\s*const\b", "", parameter.type)
        edits = [TextEdit(self.file.span(statement), f"{' '.join(element.split())} {new} = {begin};")]
        later = [n for n in uses if n.start_byte >= statement.end_byte]
        return (*edits, *(TextEdit(self.file.span(n), new) for n in later))

    def _steps_on(self, change: Node) -> bool:
        """Whether a loop moves a pointer from iteration to iteration, by `*p++`, or by a step that is all it does."""
        loops = [n for n in walk(self.body) if n.type in LOOPS and holds(n, change)]
        outer = change.parent
        alone = outer is not None and (outer.type == "expression_statement" or outer.type in LOOPS)
        in_head = any((u := n.child_by_field_name("update")) is not None and holds(u, change) for n in loops)
        return bool(loops) and (alone or in_head or change.type == "update_expression")

    def _advance(self, node: Node, name: str) -> str | None:
        """`A + n` of `A += n` and of `A = A + n`; None for all else."""
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        if left is None or right is None or operator is None or len(self._uses(node, name)) > 2:
            return None
        written = self.text.slice(self.file.span(right))
        if operator.type in ("+=", "-="):
            loose = re.search(r"[?<>&|^=]", written) or operator.type == "-="
            return f"{name} {operator.type[0]} {f'({written})' if loose else written}"
        plain = right.type == "binary_expression" and _is_named(right.children[0], self, name)
        return written if operator.type == "=" and plain and right.children[1].type == "+" else None

    def _is_declared(self, name: str) -> bool:
        return any(
            (p := n.parent) is not None and p.type.endswith("declarator") and not _is(p, "value", n)
            for n in self._uses(self.body, name)
        )

    def _fresh(self, name: str) -> str:
        new = f"{name}_slice" if "_" in name or name.islower() else f"slice{name[:1].upper()}{name[1:]}"
        while re.search(rf"\b{new}\b", self.text.text):
            new += "_"
        return new

    # a pointer that a loop walks

    def walked(self, loop: Node) -> tuple[TextEdit, ...]:
        """The loop with one of its moving pointers indexed by its counter."""
        counter = self._counter(loop)
        body = loop.child_by_field_name("body")
        if counter is None or body is None:
            return ()
        for walk_ in self._walks(loop, body):
            fixed = self._is_fixed(loop, walk_.step) and self._is_fixed(loop, counter[1])
            if fixed and self._is_own(loop, walk_) and self._is_within(loop, body, walk_):
                return self._indexed(loop, body, walk_, *counter)
        return ()

    def _counter(self, loop: Node) -> tuple[str, str] | None:
        """The loop's counter, which goes up by one, and its first value."""
        initial, update = loop.child_by_field_name("initializer"), loop.child_by_field_name("update")
        declarator = initial.child_by_field_name("declarator") if initial is not None else None
        if initial is None or initial.type != "declaration" or update is None or declarator is None:
            return None
        if declarator.type != "init_declarator" or len(initial.children_by_field_name("declarator")) != 1:
            return None
        name, value = (declarator.child_by_field_name(f) for f in ("declarator", "value"))
        if name is None or value is None or not _PLAIN.fullmatch(self.code(value)):
            return None
        counter = self.code(name)
        steps = [self.code(n) for n in _listed(update)]
        if not {f"{counter}++", f"++{counter}"} & set(steps):
            return None
        body = loop.child_by_field_name("body")
        changed = [n for n in self._changes(counter) if body is not None and holds(body, n)]
        return None if changed else (counter, self.code(value))

    def _walks(self, loop: Node, body: Node) -> Iterator[_Walk]:
        update = loop.child_by_field_name("update")
        last = body.named_children[-1] if body.type == "compound_statement" and body.named_children else None
        jumps = any(n.type in _JUMPS for n in walk(body))
        steps = _listed(update) if update is not None else []
        if last is not None and last.type == "expression_statement" and not jumps:
            steps = [*steps, *last.named_children[:1]]
        for node in steps:
            name, step = self._step(node)
            if name:
                yield _Walk(name, step, node)
        for node in walk(body):
            inner = node.child_by_field_name("argument") if node.type == "pointer_expression" else None
            if inner is None or inner.type != "update_expression" or not self.code(inner).endswith("++"):
                continue
            name, step = self._step(inner)
            if name and not jumps and len(self._uses(body, name)) == 1 and _is_certain(node, body):
                yield _Walk(name, step, node)

    def _step(self, node: Node) -> tuple[str, str]:
        """("p", "1") of `p++`, ("p", "n") of `p += n`; ("", "") of all else."""
        code = self.code(node)
        if node.type == "update_expression" and "--" not in code:
            return code.strip("+ "), "1"
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        if node.type == "assignment_expression" and operator is not None and operator.type == "+=":
            assert left is not None and right is not None
            return (self.code(left), self.code(right)) if left.type == "identifier" else ("", "")
        return "", ""

    def _is_own(self, loop: Node, walked: _Walk) -> bool:
        """Whether the pointer is declared beside the loop, moves nowhere else and is not used behind it."""
        declared = None
        at = loop.prev_named_sibling
        while at is not None:
            declarators = at.children_by_field_name("declarator") if at.type == "declaration" else []
            if any(self._names(d, walked.name) for d in declarators):
                declared = at
                break
            at = at.prev_named_sibling
        moves = self._changes(walked.name)
        if declared is None or len(moves) != 1 or not holds(loop, moves[0]):
            return False
        return all(n.end_byte <= loop.end_byte for n in self._uses(self.body, walked.name))

    def _is_within(self, loop: Node, body: Node, walked: _Walk) -> bool:
        """Whether the loop's head reads the pointer nowhere but where it moves it."""
        return all(holds(body, n) or holds(walked.moved, n) for n in self._uses(loop, walked.name))

    def _names(self, declarator: Node, name: str) -> bool:
        """Whether it declares a pointer of that name with a value."""
        inner = declarator.child_by_field_name("declarator")
        return (
            declarator.type == "init_declarator"
            and inner is not None
            and inner.type == "pointer_declarator"
            and self.code(inner).strip("* ").split()[-1:] == [name]
        )

    def _is_fixed(self, loop: Node, step: str) -> bool:
        words = re.findall(r"[A-Za-z_]\w*", step)
        return re.fullmatch(r"[\w\s*.]+", step) is not None and not any(
            holds(loop, n) for w in words for n in self._changes(w)
        )

    def _indexed(
        self, loop: Node, body: Node, walked: _Walk, counter: str, first: str
    ) -> tuple[TextEdit, ...]:
        place = counter if first == "0" else f"({counter} - {first})"
        if walked.step != "1":
            step = walked.step if re.fullmatch(r"[\w.]+|[\w\s*.]+", walked.step) else f"({walked.step})"
            place = f"{place} * {step}"
        elif first != "0":
            place = place[1:-1]
        edits = [self._taken_out(loop, walked)] if walked.moved.type != "pointer_expression" else []
        uses = self._uses(body, walked.name)
        for use in uses:
            if not holds(walked.moved, use) or walked.moved.type == "pointer_expression":
                edits.append(self._use(use, walked, place))
        places = sorted(self._place(e) for e in edits)
        nested = any(after[0] < before[1] for before, after in itertools.pairwise(places))
        return () if nested else tuple(edits)

    def _place(self, edit: TextEdit) -> tuple[int, int]:
        span = edit.span
        return self.text.offset(span.line, span.column), self.text.offset(span.end_line, span.end_column)

    def _taken_out(self, loop: Node, walked: _Walk) -> TextEdit:
        update = loop.child_by_field_name("update")
        if update is not None and holds(update, walked.moved):
            rest = [n for n in _listed(update) if n.id != walked.moved.id]
            return TextEdit(
                self.file.span(update), ", ".join(self.text.slice(self.file.span(n)) for n in rest)
            )
        statement = walked.moved.parent
        assert statement is not None
        return TextEdit(self.file.span(statement), "")

    def _use(self, use: Node, walked: _Walk, place: str) -> TextEdit:
        """One use of the pointer, at the counter's place."""
        outer, name = use.parent, walked.name
        if walked.moved.type == "pointer_expression":
            return TextEdit(self.file.span(walked.moved), f"{name}[{place}]")
        if outer is not None and outer.type == "pointer_expression" and self.code(outer).startswith("*"):
            return TextEdit(self.file.span(outer), f"{name}[{place}]")
        if outer is not None and outer.type == "subscript_expression" and _is(outer, "argument", use):
            listed = outer.child_by_field_name("indices")
            assert listed is not None
            index = self.text.slice(self.file.span(listed)).strip("[]")
            index = index if re.fullmatch(r"[\w\s.*+-]+", index) else f"({index})"
            return TextEdit(self.file.span(outer), f"{name}[{place} + {index}]")
        if outer is not None and outer.type == "field_expression" and "->" in self.code(outer):
            member = outer.child_by_field_name("field")
            assert member is not None
            return TextEdit(self.file.span(outer), f"{name}[{place}].{self.code(member)}")
        return TextEdit(self.file.span(use), f"({name} + {place})")


def _listed(node: Node) -> list[Node]:
    """The parts of `a, b, c`."""
    if node.type != "comma_expression":
        return [node]
    return [part for child in node.named_children for part in _listed(child)]


def _is(node: Node, name: str, child: Node) -> bool:
    found = node.child_by_field_name(name)
    return found is not None and found.id == child.id


def _is_named(node: Node, moved: _Moved, name: str) -> bool:
    return node.type == "identifier" and moved.code(node) == name


def _is_certain(node: Node, body: Node) -> bool:
    """Whether every iteration comes by once."""
    at, beyond = node.parent, body.parent
    while at is not None and beyond is not None and at.id != beyond.id:
        if at.type in LOOPS or at.type in ("if_statement", "conditional_expression", "switch_statement"):
            return False
        operator = at.child_by_field_name("operator")
        if at.type == "binary_expression" and operator is not None and operator.type in ("&&", "||"):
            return False
        at = at.parent
    return True
