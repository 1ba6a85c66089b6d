# SPDX-License-Identifier: Apache-2.0
"""What an edit asks for that the kernel does not, and of which one answer never came on any inputs: a case of its own
that nothing tried is not proven, neither what it does nor what it leaves to others.

Of a case the text decides whether it is the edit's own: what the kernel asks for, too, under whatever names of local
variables, is the kernel's. A number that it compares with has to be one that the kernel compares with. Where what is
left to do in a case that never came is what the kernel does, statement by statement, nothing speaks against it; nor
against a part of a certain length, where a loop goes on by that length to the next one, nor against where such a part
ends (`part_ends.py`).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.cuda.values.bindings import value_node
from warplens_tools.cuda.values.constants import constants_of
from warplens_tools.toolchain.ptx_marks import Line
from warplens_tools.toolchain.ptx_ran import OneSided, Untried
from warplens_tools.tunable.conditions import (
    DeviceCode,
    atoms_of,
    chosen_by,
    declared_names,
    has_counterpart,
    header_of,
    number_of,
)
from warplens_tools.tunable.part_ends import ends_a_part
from warplens_tools.tunable.source import File

_SHIFTED = re.compile(r"(?:>>|<<)\s*([1-5]?\d)\b")
#: Where a loop begins that does the rest of something is further than that.
_FEW = 16
_STATEMENTS = LOOPS | {"if_statement", "expression_statement", "return_statement", "declaration"}
#: Numbers that are compared with everywhere.
_USUAL = frozenset({-1.0, 0.0, 1.0})
_ALWAYS = "it came out the same on all inputs that were compared"
_NEVER = "never ran on any inputs that were compared"
#: Whether a quotient of 64 bits may be one of 32, which the compiler asks on its own.
_UPPER_HALF = "-4294967296"
_FLOAT = re.compile(r"0([fd])([0-9A-Fa-f]{8}|[0-9A-Fa-f]{16})\Z")


def value_of(constant: str) -> float | None:
    """A constant of PTX as a number; None for others."""
    if (found := _FLOAT.match(constant)) is not None:
        kind = ">f" if len(found[2]) == 8 else ">d"
        return float(struct.unpack(kind, bytes.fromhex(found[2]))[0])
    try:
        return float(int(constant.rstrip("U"), 0))
    except ValueError:
        return None


def untried_cases(
    before: File, after: File, kernel: str, path: str, tried: Untried, known: frozenset[float]
) -> str:
    """Why an edit is not proven, in words; "" for nothing.

    Args:
        before, after: the edited file as it was and as it is.
        kernel: the judged kernel's name.
        path: the file's, as the compiler names it.
        tried: what the edit asks for of which one answer never came.
        known: the numbers that the kernel compares with.
    """
    old, new = DeviceCode(before, kernel), DeviceCode(after, kernel)
    if not old.functions or not new.functions:
        return ""
    return next(_Cases(old, new, path, known).of(tried), "")


class _Cases:
    def __init__(self, old: DeviceCode, new: DeviceCode, path: str, known: frozenset[float]) -> None:
        self._old, self._new, self._known = old, new, known
        self._path = Path(path).resolve()

    def of(self, tried: Untried) -> Iterator[str]:
        never = list(self._statements(tried.places))
        for one in tried.one_sided:
            for line, statement in self._statements([one.at]):
                if any(self._leads_to(statement, other) for _, other in never) or self._goes_on(
                    statement, one
                ):
                    # what it leads to speaks for itself, and the rest of a part is another part
                    continue
                atom = next((a for a in self._may_be(statement, one) if not self._kernels(a, one)), None)
                if atom is not None and not self._falls_back(statement, [other for _, other in never]):
                    said = " ".join(self._new.tree.code_of(atom).split())
                    yield f"line {line} of the edit asks `{said}`, which the kernel does not, and {_ALWAYS}"
        for line, statement in never:
            if not self._stands(statement, [other for _, other in never]):
                yield f"line {line} of the edit {_NEVER}, and the kernel has no such case"
            elif self._is_partly(statement):
                yield f"line {line} of the edit {_NEVER}, and the kernel's loop there does more, or something else"

    def _statements(self, places: Iterable[Line]) -> Iterator[tuple[int, Node]]:
        for place in sorted(places):
            if Path(place.file).resolve() != self._path:
                continue
            statement = self._new.statement_at(place.line, place.column)
            if statement is not None:
                yield place.line, statement

    def _may_be(self, statement: Node, one: OneSided) -> list[Node]:
        """The conditions that a comparison may be, by the numbers that are compared with: others, as those of unrolled
        loops and of functions that are approximated, are the compiler's."""
        if statement.type in LOOPS or _UPPER_HALF in one.constants:
            return []
        given = [value for c in one.constants if (value := value_of(c)) is not None]
        found = {a.id: a for a in (*atoms_of(statement), *chosen_by(header_of(statement), self._new))}
        return [atom for atom in found.values() if self._matches(atom, given) and not self._ends_a_part(atom)]

    def _ends_a_part(self, atom: Node) -> bool:
        return ends_a_part(atom, self._new.guards(atom), self._new.tree)

    def _matches(self, atom: Node, given: list[float]) -> bool:
        """Whether an atom has one of the numbers of a comparison; where these are usual ones, none of its own."""
        own, theirs = ({n for n in numbers if n not in _USUAL} for numbers in (self._numbers(atom), given))
        return any(_near(a, b) for a in theirs for b in own) if theirs else not own

    def _numbers(self, atom: Node) -> Iterator[float]:
        """The numbers of a condition, those that its names stand for among them."""
        local = self._new.locals | self._new.parameters.keys()
        constants = constants_of(self._new.tree)
        for word in self._new.words(atom):
            value = number_of(word)
            if value is None and re.match(r"[A-Za-z_]\w*\Z", word) and word not in local:
                value = constants.value(word, atom.start_byte)
                binding = constants.binding(word, atom.start_byte) if value is None else None
                node = value_node(self._new.tree, binding) if binding is not None and binding.value else None
                value = number_of(self._new.tree.code_of(node)) if node is not None else value
            if value is not None:
                yield float(value)
        # whether anything is left above so many bits
        yield from (2.0 ** int(found[1]) for found in _SHIFTED.finditer(self._new.tree.code_of(atom)))

    def _kernels(self, atom: Node, one: OneSided) -> bool:
        """Whether the kernel asks for what an atom of the edit asks for."""
        own = list(self._numbers(atom))
        given = {value for c in one.constants if (value := value_of(c)) is not None} - _USUAL
        meant = [v for v in given if any(_near(v, b) for b in own)]
        known = all(any(_near(v, k) for k in self._known) for v in meant)
        return known and has_counterpart(atom, self._new, self._old, self._old.conditions)

    def _leads_to(self, statement: Node, other: Node) -> bool:
        """Whether a condition decides about another statement: by a branch of its own, or by a variable that it is."""
        if _is_within(other, statement):
            return True
        names = {self._new.tree.code_of(name) for name in declared_names(statement)}
        return any(not names.isdisjoint(self._switches(guard)) for guard in self._new.guards(other))

    def _falls_back(self, statement: Node, never: list[Node]) -> bool:
        """Whether one of several conditions fails to what ran where another one did, and is the kernel's own code: all
        of a function that is left behind a case that ends it, or what stands in its other branch."""
        if statement.type != "if_statement" or len(list(atoms_of(statement))) < 2:
            return False
        condition, done = (statement.child_by_field_name(name) for name in ("condition", "consequence"))
        if condition is None or done is None or "||" in self._new.tree.code_of(condition):
            return False
        other = statement.child_by_field_name("alternative")
        rest = [other] if other is not None else []
        if other is None and _ends(done):
            left = statement.next_named_sibling
            while left is not None:
                rest.append(left)
                left = left.next_named_sibling
        parts = [node for one in rest for node in walk(one) if node.type in _STATEMENTS]
        untried = {node.id for node in never}
        return bool(parts) and all(self._has(one) and one.id not in untried for one in parts)

    def _goes_on(self, statement: Node, one: OneSided) -> bool:
        """Whether a loop around a statement goes on by what its comparison is with."""
        given = {value for c in one.constants if (value := value_of(c)) is not None} - _USUAL
        updates = (g.child_by_field_name("update") for g in self._new.guards(statement) if g.type in LOOPS)
        steps = {step for update in updates if update is not None for step in self._numbers(update)}
        return bool(given) and all(any(_near(value, step) for step in steps) for value in given)

    def _switches(self, guard: Node) -> set[str]:
        """The variables that a condition is made of, where it is made of nothing else."""
        words = {word for atom in atoms_of(guard) for word in self._new.words(atom)} - {"!"}
        return words if words <= self._new.locals else set()

    def _stands(self, statement: Node, never: list[Node]) -> bool:
        """Whether the kernel has a statement, or asks for all that leads to it. What only leads out of a case goes with
        what else there is of it."""
        guard = next(self._new.guards(statement), None)
        if guard is None:
            return True
        if statement.type != "return_statement" and self._has(statement):
            return True
        late = guard.type in LOOPS and self._begins_late(guard)
        if not late and (self._has(guard) or all(self._asked(atom) for atom in atoms_of(guard))):
            return True
        switches = self._switches(guard)
        others = [n for n in never if n.type != "return_statement" and n.id != statement.id]
        same = [n for n in others if any(switches & self._switches(g) for g in self._new.guards(n))]
        return statement.type == "return_statement" and bool(same) and all(map(self._has, same))

    def _is_partly(self, loop: Node) -> bool:
        """Whether a loop goes round as one of the kernel's does, and is another one."""
        body = loop.child_by_field_name("body")
        if loop.type != "for_statement" or body is None or loop.child_by_field_name("initializer") is None:
            return False
        whole, inner = self._new.shape(loop), self._new.shape(body)
        return whole.removesuffix(inner) in self._old.text and whole not in self._old.text

    def _begins_late(self, guard: Node) -> bool:
        """Whether a loop begins at a number of the edit's own: the rest of what ran."""
        begins = guard.child_by_field_name("initializer")
        own = {n for n in self._numbers(begins) if n >= _FEW} if begins is not None else set[float]()
        return bool(own - {value for f in self._old.functions for value in self._numbers_in(f.body)})

    def _numbers_in(self, body: Node) -> Iterator[float]:
        yield from (float(value) for word in self._old.words(body) if (value := number_of(word)) is not None)

    def _has(self, statement: Node) -> bool:
        return self._new.shape(header_of(statement)) in self._old.text

    def _asked(self, atom: Node) -> bool:
        """Whether the kernel asks for what a condition asks for; of a variable, for what it was set to."""
        name = self._new.tree.code_of(atom).lstrip("!").strip()
        if name not in self._new.locals:
            return has_counterpart(atom, self._new, self._old, self._old.conditions)
        binding = constants_of(self._new.tree).binding(name, atom.start_byte)
        value = value_node(self._new.tree, binding) if binding is not None and binding.value else None
        return value is not None and all(
            has_counterpart(part, self._new, self._old, self._old.conditions)
            for part in (value, *chosen_by(value, self._new))
        )


def _is_within(statement: Node, condition: Node) -> bool:
    """Whether a statement is in one of the branches of a conditional one."""
    branches = (condition.child_by_field_name(name) for name in ("consequence", "alternative"))
    return any(b is not None and b.start_byte <= statement.start_byte < b.end_byte for b in branches)


def _ends(branch: Node) -> bool:
    """Whether nothing of a function comes after a branch of a condition."""
    last = (
        branch.named_children[-1] if branch.type == "compound_statement" and branch.named_children else branch
    )
    return last.type == "return_statement"


def _near(one: float, other: float) -> bool:
    """`< 5` is `<= 4`; floats are held in fewer bits."""
    if not math.isfinite(one) or not math.isfinite(other):
        return one == other
    whole = one.is_integer() and other.is_integer()
    return abs(one - other) <= (1 if whole else 1e-6 * abs(one))
