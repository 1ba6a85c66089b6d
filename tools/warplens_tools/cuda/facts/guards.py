# SPDX-License-Identifier: Apache-2.0
"""Who comes to a place of a kernel: the conditions around it, and those that made others leave before it.

`if (lane == 0) …`, `if (threadIdx.x) return;`, `t == N - 1 && x`: conditions over threads are worked out for
every thread of a block; what is loaded or drawn decides by itself, and no text says how often.
"""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Iterator, Sequence

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.conditions import (
    Comparison,
    Condition,
    Values,
    read_comparison,
    read_condition,
)
from warplens_tools.cuda.facts.lane_names import lane_names, mentions_lanes
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.around import inherited
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.bindings import value_node
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3
from warplens_tools.cuda.values.cooperative_groups import is_rank
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.forms import Form, Symbol
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.text import Span

#: Few threads come to a place where at most one of so many of a block do.
FEW = 8
#: Taken where the launches do not fix the block.
_ASSUMED_BLOCK = (256, 1, 1)
#: Values tried for what is the same for a block, the largest first: a bound that all pass is then met at once.
_SAME = {
    "parameter": (1_000_003, 1 << 20, 7),
    "grid size": (1_000_003, 7),
    "block": (0, 7),
    "loop": (0, 1, 2, 4),
}
#: Elements of a thread's own.
_SMALL = 2
_EXITS = frozenset({"return_statement", "continue_statement", "break_statement"})
_WORD = re.compile(r"[A-Za-z_]\w*")
#: Functions that give the lanes of a warp one value.
_VOTES = re.compile(r"\b__(?:ballot|activemask|any|all|reduce_\w+|shfl)(?:_sync)?\s*\(|\bballot\s*\(")
_EQUALS = {"==": True, "!=": False}


class Test(msgspec.Struct, frozen=True):
    """A condition without `&&`, and whether it must hold."""

    node: Node
    holds: bool


class Comers(msgspec.Struct, frozen=True):
    """Who comes to a place: one thread of a group, those whose indices meet `come`, those that data lets."""

    one: bool
    come: tuple[Comparison, ...]
    by_data: bool


class Guards:
    """The conditions of one kernel's places. `varying` are the names that differ between lanes."""

    def __init__(self, forms: FormReader, varying: frozenset[str]) -> None:
        self.forms, self.tree, self.varying = forms, forms.tree, varying
        self.body = forms.kernel.function.body
        self._exits: dict[int, list[tuple[int, Node]]] = {}
        self._tests: dict[int, tuple[Test, ...]] = {}
        self._few: dict[tuple[tuple[int, bool], ...], bool] = {}
        self._comers: dict[tuple[tuple[int, bool], ...], Comers] = {}

    def are_few(self, tests: Sequence[Test]) -> bool:
        """Whether they let through few threads of each block, or those of one block alone."""
        key = tuple((t.node.id, t.holds) for t in tests)
        if key not in self._few:
            self._few[key] = self._lets_few(tests)
        return self._few[key]

    def _lets_few(self, tests: Sequence[Test]) -> bool:
        if any(self._names_one(test) for test in tests):
            return True
        known = [(c, t.holds) for t in tests if (c := self._over_threads(t)) is not None]
        return bool(known) and _few_of(known, self._block)

    def comers(self, tests: Sequence[Test]) -> Comers:
        """Who meets all tests."""
        key = tuple((t.node.id, t.holds) for t in tests)
        if key not in self._comers:
            one = any(self._names_one(test) and not self._asks_for_blocks(test) for test in tests)
            self._comers[key] = Comers(one, self._of_lanes(tests), bool(self.data(tests)))
        return self._comers[key]

    def _asks_for_blocks(self, test: Test) -> bool:
        """Whether a condition that can be worked out is not about threads: `blockIdx.z == 0` lets all of a block
        through, and as many blocks as the grid is wide along the others."""
        found = read_condition(self.forms.kernel, self.forms, test.node)
        return found is not None and not any(s.kind == "thread" for s in found.symbols)

    def _of_lanes(self, tests: Sequence[Test]) -> tuple[Comparison, ...]:
        """Those that hang on the thread's index and can be worked out, as they must hold."""
        read = (read_comparison(self.forms, t.node, holds=t.holds) for t in tests)
        return tuple(c for c in read if c is not None and any(s.kind == "thread" for s in c.symbols))

    def of_block(self, test: Test) -> bool:
        """Whether a condition is about blocks too, not about the threads of each one alone."""
        found = read_condition(self.forms.kernel, self.forms, test.node)
        kinds = {s.kind for s in found.symbols} if found is not None else {"thread"}
        return "block" in kinds or not kinds & {"thread", "derived"}

    def data(self, tests: Sequence[Test]) -> tuple[Test, ...]:
        """Those that hang on what is loaded, drawn or worked out from it."""
        return tuple(t for t in tests if self._is_data(t.node))

    def tests(self, node: Node) -> tuple[Test, ...]:
        """Every condition that must hold, or must not, for the kernel to come to a node, innermost first."""
        return inherited(self._tests, node, self._with_tests, ())

    def _with_tests(self, outer: Node, child: Node, tests: tuple[Test, ...]) -> tuple[Test, ...]:
        if outer.start_byte < self.body.start_byte:
            return ()
        asked = [*_conditions(outer, child), *self._left(outer, child)]
        return (*(t for c, holds in asked for t in self._parts(c, holds=holds)), *tests) if asked else tests

    def _left(self, outer: Node, inner: Node) -> list[tuple[Node, bool]]:
        """Conditions by which some left `outer` before it comes to `inner`."""
        if outer.id not in self._exits:
            self._exits[outer.id] = _exits(outer)
        return [(gone, False) for end, gone in self._exits[outer.id] if end <= inner.start_byte]

    @property
    def _block(self) -> tuple[int, int, int]:
        x, y, z = self.forms.block
        return _ASSUMED_BLOCK if x is None or y is None or z is None else (x, y, z)

    def _parts(self, node: Node, *, holds: bool, depth: int = 0) -> Iterator[Test]:
        """The conditions that are all needed: both of `a && b`, and of `a || b` that must not hold."""
        inner = self._inside(node)
        sign = inner.child_by_field_name("operator")
        kind = sign.type if sign is not None else ""
        left, right = inner.child_by_field_name("left"), inner.child_by_field_name("right")
        argument = inner.child_by_field_name("argument")
        if depth > 20:
            return
        if kind == ("&&" if holds else "||") and left is not None and right is not None:
            yield from self._parts(left, holds=holds, depth=depth + 1)
            yield from self._parts(right, holds=holds, depth=depth + 1)
        elif kind == "!" and argument is not None:
            yield from self._parts(argument, holds=not holds, depth=depth + 1)
        elif inner.type == "identifier" and (value := self._value(inner)) is not None:
            yield from self._parts(value, holds=holds, depth=depth + 1)
        else:
            yield Test(inner, holds)

    def _inside(self, node: Node) -> Node:
        """Within parentheses, and `__builtin_expect`."""
        while True:
            listed = node.child_by_field_name("arguments") if node.type == "call_expression" else None
            if listed is not None and self.tree.code_of(node).startswith("__builtin_expect"):
                node = listed.named_children[0]
            elif (
                node.type in ("parenthesized_expression", "condition_clause") and node.named_child_count == 1
            ):
                node = node.named_children[0]
            else:
                return node

    def _value(self, name: Node) -> Node | None:
        """What a `bool first = …;` that is set once was set to."""
        binding = self.forms.kernel.constants.binding(self.tree.code_of(name), name.start_byte)
        if binding is None or binding.value is None or self.forms.form(name) is not None:
            return None
        return value_node(self.tree, binding) if self.forms.set_once(binding) else None

    def _over_threads(self, test: Test) -> Condition | None:
        found = read_condition(self.forms.kernel, self.forms, test.node)
        return found if found is not None and any(s.kind == "thread" for s in found.symbols) else None

    def _names_one(self, test: Test) -> bool:
        """Whether it asks for one thread of a group, or for one block, by a number that its threads agree on."""
        sign = test.node.child_by_field_name("operator")
        left, right = test.node.child_by_field_name("left"), test.node.child_by_field_name("right")
        if sign is None or left is None or right is None:
            return not test.holds and is_rank(self.tree.code_of(test.node))
        if _EQUALS.get(sign.type) is not test.holds:
            return False
        return self._is_one(left, right) or self._is_one(right, left)

    def _is_one(self, which: Node, number: Node) -> bool:
        """`lane == leader`, `blockIdx.x == 0`."""
        form, other = self.forms.form(which), self.forms.form(number)
        kinds = {s.kind for s in form.symbols} if form is not None else set()
        if kinds == {"block"}:
            return other is not None and {s.kind for s in other.symbols} <= {"parameter", "grid size"}
        if (form is not None and other is not None) or not self._is_agreed(number):
            return False
        return is_rank(self.tree.code_of(which)) or (form is not None and _differs(form, self._block))

    def _is_agreed(self, number: Node) -> bool:
        """Whether the lanes of a warp have one value: none of its names differs, or they voted on it."""
        value = self._value(number) if number.type == "identifier" else None
        code = self.tree.code_of(value or number)
        return bool(_VOTES.search(code)) or not mentions_lanes(code, self.varying)

    def _is_data(self, node: Node) -> bool:
        if read_condition(self.forms.kernel, self.forms, node) is not None:
            return False
        own = {n for n in _WORD.findall(self.tree.code_of(node)) if self._is_local(n, node.start_byte)}
        return bool(own) or any(n.type in ("subscript_expression", "pointer_expression") for n in walk(node))

    def _is_local(self, name: str, at: int) -> bool:
        """Whether the kernel's body gives it its value, as it does to none of its parameters and constants."""
        binding = self.forms.kernel.constants.binding(name, at)
        return binding is not None and self.body.start_byte <= binding.declaration[0] < self.body.end_byte


def _differs(form: Form, block: tuple[int, int, int]) -> bool:
    """Whether few threads of a block have any one value, as they do of a thread's index or a lane's number."""
    given = {s.name: 0 for s in form.symbols if s.kind not in ("thread", "derived")}
    given |= dict(zip(("blockDim.x", "blockDim.y", "blockDim.z"), block, strict=True))
    every = itertools.product(*(range(n) for n in reversed(block)))
    found = [
        form.evaluate({**given, "threadIdx.x": x, "threadIdx.y": y, "threadIdx.z": z}) for z, y, x in every
    ]
    most = max(collections.Counter(found).values())
    return None not in found and most <= max(1, len(found) // FEW)


def _conditions(outer: Node, inner: Node) -> Iterator[tuple[Node, bool]]:
    """What `outer` asks before it comes to `inner`, one of its children: conditions, and whether they must hold."""
    test = outer.child_by_field_name("condition")
    if outer.type in ("if_statement", "conditional_expression") and test is not None and test.id != inner.id:
        other = outer.child_by_field_name("alternative")
        yield test, other is None or other.id != inner.id
    sign = outer.child_by_field_name("operator") if outer.type == "binary_expression" else None
    left = outer.child_by_field_name("left")
    if sign is not None and sign.type in ("&&", "||") and left is not None and left.id != inner.id:
        yield left, sign.type == "&&"


def _exits(block: Node) -> list[tuple[int, Node]]:
    """Where an `if` of a block that some leave by ends, and its condition."""
    found = []
    for each in block.named_children if block.type == "compound_statement" else ():
        gone = each.child_by_field_name("condition") if each.type == "if_statement" else None
        if gone is not None and each.child_by_field_name("alternative") is None and _leaves(each):
            found.append((each.end_byte, gone))
    return found


def _leaves(branch: Node) -> bool:
    """Whether who takes an `if` does not come to what follows it."""
    then = branch.child_by_field_name("consequence")
    if then is not None and then.type == "compound_statement":
        then = then.named_children[-1] if then.named_child_count else None
    return then is not None and then.type in _EXITS


def _few_of(tests: Sequence[tuple[Condition, bool]], block: tuple[int, int, int]) -> bool:
    """Whether few threads of a block pass all tests, whatever the same for them is, and any at all."""
    symbols = {s for c, _ in tests for s in c.symbols if s.kind not in ("thread", "derived", "block size")}
    sizes = dict(zip(("blockDim.x", "blockDim.y", "blockDim.z"), block, strict=True))
    most = 0
    for same in _settings(tuple(symbols)):
        passed = _passed(tests, block, sizes | same)
        if passed is None:
            return False
        most = max(most, passed)
    return most > 0


def _settings(symbols: Sequence[Symbol]) -> Iterator[dict[str, int]]:
    """Values of symbols, all of one kind alike; then each of several parameters small in turn, as the elements of a
    thread's own are beside the length of what they are part of."""
    kinds = sorted({s.kind for s in symbols})
    given = [s.name for s in symbols if s.kind == "parameter"]
    for values in itertools.product(*(_SAME[k] for k in kinds)):
        of = dict(zip(kinds, values, strict=True))
        yield {s.name: of[s.kind] for s in symbols}
    for small in given if len(given) > 1 else ():
        yield {s.name: _SAME[s.kind][0] for s in symbols} | {small: _SMALL}


def _passed(tests: Sequence[tuple[Condition, bool]], block: tuple[int, int, int], same: Values) -> int | None:
    """How many threads pass; None where that is not known, or they are no longer few."""
    count, limit = 0, block[0] * block[1] * block[2] // FEW
    for z, y, x in itertools.product(*(range(n) for n in reversed(block))):
        values = {**same, "threadIdx.x": x, "threadIdx.y": y, "threadIdx.z": z}
        answers = [(c.holds(values), wanted) for c, wanted in tests]
        if any(answer is None for answer, _ in answers):
            return None
        count += all(answer is wanted for answer, wanted in answers)
        if count > max(limit, 1):
            return None
    return count


def mentions(tree: SourceTree, tests: Sequence[Test], place: str) -> bool:
    """Whether any of the tests reads a place, given as written without blanks."""
    return any(place in "".join(tree.code_of(t.node).split()) for t in tests)


def guarded_loops(
    tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3
) -> tuple[tuple[Span, Span], ...]:
    """Loops that few threads of each block come to, outermost ones, with the innermost condition that lets so few."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None or kernel.broken:
        return ()
    forms = FormReader(expanded, block)
    guards = Guards(forms, lane_names(expanded.tree.code_of(expanded.function.body)))
    found: list[tuple[Span, Span]] = []
    for node in walk(expanded.function.body):
        span = expanded.tree.span(node) if node.type in LOOPS else None
        if span is None or any(outer.contains(span) for outer, _ in found):
            continue
        few = next((t for t in guards.tests(node) if guards.are_few((t,)) and not guards.of_block(t)), None)
        if few is not None:
            found.append((span, expanded.tree.span(few.node)))
    return tuple(found)
