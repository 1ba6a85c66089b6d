# SPDX-License-Identifier: Apache-2.0
"""What one iteration of a loop leaves for the next: whether other threads may take its iterations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.values.kernel_tree import KernelTree
from warplens_tools.cuda.values.writes import changes
from warplens_tools.rewrite.common.apart import apart
from warplens_tools.rewrite.common.counting import LOOPS, Counting, counting
from warplens_tools.rewrite.common.kernel_reader import KernelReader, Store
from warplens_tools.rewrite.common.lengths import Length, length_of
from warplens_tools.rewrite.common.reading import field
from warplens_tools.rewrite.common.reductions import Fold, folds, name_in

_LEAVES = frozenset({"return_statement", "goto_statement", "co_return_statement", "lambda_expression"})


class Work(msgspec.Struct, frozen=True):
    """A loop of which other threads may take iterations; `why_not` says why they may not."""

    loop: Counting
    folds: tuple[Fold, ...] = ()
    why_not: str = ""


class LoopReader(KernelReader):
    """One kernel's statements, with what its loops carry from one iteration to the next."""

    def __init__(self, expanded: KernelTree, file: SourceTree, kernel: Kernel) -> None:
        super().__init__(expanded, file, kernel)
        #: Arrays of the thread's own of which a loop may not write elements: others need them.
        self.whole: set[str] = set()
        #: Values of the template's parameters that all launches give it.
        self.given: dict[str, int] = {}

    def work(self, loop: Counting) -> Work:
        """Whether the iterations of a loop may be taken by others, and what they fold into."""
        why = self.why_not_apart(loop)
        if why:
            return Work(loop, why_not=why)
        found = list(folds(self.tree, loop.body))
        kept: dict[str, Fold] = {}
        for name, node in self._changed(loop).items():
            mine = [f for f in found if name in (f.place.split(".")[0], f.companion.split(".")[0])]
            why = self._carries(loop, node, mine)
            if not why:
                kept |= {f.place: f for f in mine if not self._is_own(loop, f)}
            elif not self._is_private(loop, node):
                return Work(loop, why_not=why)
        return Work(loop, tuple(kept.values()))

    def why_not_apart(self, loop: Counting) -> str:
        """Why iterations may not be in any order, for what they leave or write to memory; "" where they may."""
        return self._leaves(loop) or self._memory(loop)

    def _is_own(self, loop: Counting, fold: Fold) -> bool:
        node = next(n for n in self.names[fold.place.split(".")[0]] if n.id in fold.own)
        return self.is_inside(self.binding(node), loop.node)

    def _leaves(self, loop: Counting) -> str:
        """Whether an iteration may end the loop."""
        for node in walk(loop.body):
            if node.type in _LEAVES:
                return "an iteration may leave the kernel"
            if node.type == "break_statement" and not _caught(node, loop.body):
                return "an iteration may end its loop"
        return ""

    def _changed(self, loop: Counting) -> dict[str, Node]:
        """Variables from outside that the loop may change, each with an occurrence."""
        code = self.tree.code_of(loop.node)
        found: dict[str, Node] = {}
        for name, nodes in self.names.items():
            inside = [n for n in nodes if loop.node.start_byte <= n.start_byte < loop.node.end_byte]
            outer = [n for n in inside if not self.is_inside(self.binding(n), loop.node)]
            if outer and name != loop.variable and changes(self.tree, code, name):
                found[name] = outer[0]
        return found

    def _carries(self, loop: Counting, node: Node, mine: list[Fold]) -> str:
        """Why a variable is more than folded into; "" where that is all."""
        name, binding = self.tree.code_of(node), self.binding(node)
        if name in self.shared_scalars:
            return f"each iteration changes {name}, which is the block's"
        if binding is None or binding.kind in ("pointer", "array"):
            return f"each iteration moves {name} on"
        explained = {own for fold in mine for own in fold.own}
        used = [
            n for n in self.occurrences(node) if loop.node.start_byte <= n.start_byte < loop.node.end_byte
        ]
        by_place: dict[str, set[tuple[str, str]]] = {}
        for fold in mine:
            by_place.setdefault(fold.place, set()).add((fold.operation, fold.companion))
        alike = all(len(operations) == 1 for operations in by_place.values())
        if not mine or not alike or any(n.id not in explained for n in used):
            return f"each iteration needs {name} as the one before left it"
        return ""

    def _is_private(self, loop: Counting, node: Node) -> bool:
        """Whether every iteration sets the variable before it reads it, and nothing behind the loop does."""
        used = self.occurrences(node)
        inside = [n for n in used if loop.body.start_byte <= n.start_byte < loop.body.end_byte]
        behind = [n for n in used if n.start_byte >= loop.node.end_byte]
        if (
            not inside
            or not self.is_set(inside[0])
            or any(n.start_byte < loop.body.start_byte for n in used if n.start_byte >= loop.node.start_byte)
        ):
            return False
        statement = _statement(inside[0])
        parent = statement.parent if statement is not None else None
        top = statement is not None and (
            statement.id == loop.body.id or (parent is not None and parent.id == loop.body.id)
        )
        return top and (not behind or self.is_set(behind[0]))

    def _memory(self, loop: Counting) -> str:
        """Why what the loop writes to memory does not allow it."""
        moving = self.moving(loop)
        sliding = self._sliding(loop, moving)
        for store in self.stores(loop.body):
            name = store.array
            base = next((n for n in walk(store.target) if n.type == "identifier"), store.target)
            if store.space == "local":
                if not self.is_inside(self.binding(base), loop.node) and not self._by_element(loop, name):
                    return f"each thread's own array {name} is written"
                continue
            words = {self.tree.code_of(n) for n in walk(store.target) if n.type == "identifier"}
            if not words & moving and self._is_same(store, moving):
                continue
            if not words & moving:
                return f"every iteration writes the same element of {name}"
            if words & moving <= sliding:
                return f"two iterations may write the same element of {name}"
            if store.updates and self._may_meet(loop, store.target):
                return f"two iterations may update the same element of {name}"
            if self._reads_elsewhere(loop, store):
                return f"an iteration reads elements of {name} that another writes"
        return ""

    def _sliding(self, loop: Counting, moving: set[str]) -> set[str]:
        """Counters inside a loop that go one by one from where its iteration says to an end that is all iterations'."""
        found = set[str]()
        for node in walk(loop.body):
            inner = counting(self.expanded, node) if node.type == "for_statement" else None
            if inner is not None and inner.step == "1" and inner.first is not None:
                first, ends = (
                    {self.tree.code_of(n) for part in parts for n in walk(part) if n.type == "identifier"}
                    for parts in ((inner.first,), inner.bounds)
                )
                found |= {inner.variable} if first & moving and not ends & moving else set()
        return found

    def _by_element(self, loop: Counting, array: str) -> bool:
        """Whether each iteration has an element of an array to itself: `acc[j]`."""
        uses = [
            n for n in self.names.get(array, ()) if loop.node.start_byte <= n.start_byte < loop.node.end_byte
        ]
        return array not in self.whole and all(self.index_of(n) == loop.variable for n in uses)

    def _is_same(self, store: Store, moving: set[str]) -> bool:
        """Whether every iteration writes the same value: a flag."""
        parent = store.target.parent
        value = parent.child_by_field_name("right") if parent is not None and not store.updates else None
        return value is not None and not any(
            n.type == "call_expression" or (n.type == "identifier" and self.tree.code_of(n) in moving)
            for n in walk(value)
        )

    def moving(self, loop: Counting) -> set[str]:
        """Names whose value changes with the loop's variable, and places in an output that an atomic counts up."""
        found = {loop.variable} | set(self._counted(loop))
        grown = True
        while grown:
            grown = False
            for node in walk(loop.body):
                name, value = _given(node)
                if name is None or value is None or self.tree.code_of(name) in found:
                    continue
                if any(n.type == "identifier" and self.tree.code_of(n) in found for n in walk(value)):
                    found.add(self.tree.code_of(name))
                    grown = True
        return found

    def _counted(self, loop: Counting) -> Iterator[str]:
        """Variables that the body declares with what an atomic sum was before: no two iterations have the same."""
        for node in walk(loop.body):
            name, value = _given(node) if node.type == "init_declarator" else (None, None)
            function = value.child_by_field_name("function") if value is not None else None
            if name is None or value is None or function is None:
                continue
            if self.tree.code_of(function).strip() == "atomicAdd":
                given = field(value, "arguments").named_children
                if re.fullmatch(r"[1-9]\d*[uUlL]*", self.tree.code_of(given[-1]).strip()):
                    yield self.tree.code_of(name)

    def _may_meet(self, loop: Counting, target: Node) -> bool:
        """Whether data choose the element, or a division or a remainder that changes with the loop does."""
        pointer = self.place(target)
        form = pointer.traced if pointer is not None else None
        counter = self.forms.loop(loop.node).counter
        if form is None or not counter:
            return True
        derived = [s for s in form.symbols if s.kind == "derived"]
        return any(s.opaque or s.operation not in ("/", "%") or s.mentions(counter) for s in derived)

    def _reads_elsewhere(self, loop: Counting, store: Store) -> bool:
        written = self._element(store.target)
        given = {p.name for p in self.kernel.parameters if not p.pointer}
        for node in walk(loop.body):
            if node.type not in ("subscript_expression", "pointer_expression") or self._is_part(node):
                continue
            array, _ = self.array_of(node)
            is_other = array == store.array and self._element(node) != written
            if is_other and not apart(self.expanded, given, loop, store.target, node):
                return True
        return False

    def _is_part(self, node: Node) -> bool:
        """A row of `a[i][j]`, or an address that is taken."""
        parent = node.parent
        operator = node.child_by_field_name("operator")
        if node.type == "pointer_expression" and operator is not None and operator.type == "&":
            return True
        return (
            parent is not None and parent.type == "subscript_expression" and parent.children[0].id == node.id
        )

    def _element(self, node: Node) -> str:
        while node.type == "field_expression":
            inner = node.child_by_field_name("argument")
            if inner is None:
                break
            node = inner
        pointer = self.place(node)
        if pointer is not None and pointer.offset is not None:
            return f"{pointer.name} {pointer.offset}"
        return "".join(self.tree.code_of(node).split())

    def neighbours(self, loop: Counting, among: Iterable[int] = ()) -> int:
        """How many accesses to global memory go from element to element with the loop's variable.

        `among`: offsets of loops inside it, of whose accesses alone is asked.
        """
        count, wanted = 0, frozenset(among)
        for access in self.accesses:
            if wanted and not any(one.offset in wanted for one in access.loops):
                continue
            if access.space == "local" or access.traced is None:
                continue
            mine = next((one for one in access.loops if one.offset == loop.node.start_byte), None)
            if mine is not None and mine.counter and access.traced.coefficient(mine.counter) in (1, -1):
                count += 1
        return count

    def trips(self, loop: Counting) -> int | None:
        """How often a loop runs, where that is constant."""
        return self.forms.loop(loop.node).trips

    def ends_by_data(self, loop: Counting) -> bool:
        """Whether data say how long a loop is."""
        return any(self.forms.form(bound) is None for bound in loop.bounds)

    def length(self, loop: Counting) -> Length:
        """How often a loop runs at most."""
        return length_of(self.forms, loop, self.given)


def _given(node: Node) -> tuple[Node | None, Node | None]:
    """A variable and what it is given."""
    if node.type == "init_declarator":
        name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        while name is not None and name.type != "identifier":
            name = name.child_by_field_name("declarator") or next(iter(name.named_children), None)
        return name, value
    if node.type == "assignment_expression":
        left = node.child_by_field_name("left")
        return (
            name_in(left) if left is not None and left.type in ("identifier", "field_expression") else None
        ), (node.child_by_field_name("right"))
    return None, None


def _caught(node: Node, body: Node) -> bool:
    """Whether a `break` ends a loop or a switch inside `body`."""
    parent = node.parent
    while parent is not None and parent.id != body.id:
        if parent.type in LOOPS or parent.type == "switch_statement":
            return True
        parent = parent.parent
    return False


def _statement(node: Node) -> Node | None:
    current: Node | None = node
    while current is not None and not current.type.endswith("_statement"):
        current = current.parent
    return current
