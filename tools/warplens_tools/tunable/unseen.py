# SPDX-License-Identifier: Apache-2.0
"""What an edit does to lines that no inputs led to: what never ran is not proven.

Of a kernel that is written anew everything is changed; what counts is what it asks for. A line that never ran stays if
it stands, with its condition, in the other version too, whatever its variables are called. A condition that always came
out the same stays if the other version asks for the same members, parameters and constants somewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS
from warplens_tools.toolchain.ptx_marks import Line
from warplens_tools.toolchain.ptx_ran import NeverRan, OneSided
from warplens_tools.tunable.conditions import DeviceCode, atoms_of, has_counterpart, header_of, number_of
from warplens_tools.tunable.source import File

_ON_NO_INPUTS = "on any inputs that were compared"
#: Statements that only lead on: their condition says all.
_LEADS = frozenset({"return_statement", "break_statement", "continue_statement"})


class Unseen(msgspec.Struct, frozen=True):
    """Why an edit is not proven, in words, "" for nothing; and the lines that never ran and that it leaves alone."""

    why: str = ""
    left: tuple[int, ...] = ()


def unseen_changes(before: File, after: File, kernel: str, path: str, ran: NeverRan) -> Unseen:
    """What an edit changes of what never ran.

    Args:
        before, after: the edited file as it was and as it is.
        kernel: the judged kernel's name.
        path: the file's, as the compiler names it.
        ran: what of the kernel never did.
    """
    old, new = DeviceCode(before, kernel), DeviceCode(after, kernel)
    if not old.functions or not new.functions:
        return Unseen()
    return _Comparing(old, new, kernel, path).of(ran)


class _Comparing:
    def __init__(self, old: DeviceCode, new: DeviceCode, kernel: str, path: str) -> None:
        self._old, self._new, self._kernel = old, new, kernel
        self._path = Path(path).resolve()

    def of(self, ran: NeverRan) -> Unseen:
        left: set[int] = set()
        changed: set[int] = set()
        for line, statement in self._statements(ran.places):
            (left if self._keeps(statement) else changed).add(line)
        if changed:
            return Unseen(
                f"{_named(changed)} of {self._kernel} never ran {_ON_NO_INPUTS}, and the edit changes them"
            )
        for one in ran.one_sided:
            for line, statement in self._statements([one.at]):
                meant = self._meant(statement, one)
                if meant and self._lost(statement, meant):
                    said = " ".join(self._old.tree.code_of(meant[0]).split())
                    always = "always came out the same on all inputs that were compared"
                    why = f"line {line} of {self._kernel}: `{said}` {always}, and the edit has no such condition"
                    return Unseen(why)
                left |= {line} if meant else set()
        for line, statement in self._statements(ran.once):
            if statement.type in LOOPS and not self._turns(statement):
                why = f"the loop in line {line} of {self._kernel} never went round {_ON_NO_INPUTS}"
                return Unseen(f"{why}, and the edit has none like it")
        return Unseen(left=tuple(sorted(left)))

    def _statements(self, places: Iterable[Line]) -> Iterator[tuple[int, Node]]:
        """Those of the edited file that the kernel's own code has."""
        for place in sorted(places):
            if Path(place.file).resolve() != self._path:
                continue
            statement = self._old.statement_at(place.line, place.column)
            if statement is not None:
                yield place.line, statement

    def _stands(self, node: Node) -> bool:
        return self._old.shape(node) in self._new.text

    def _asks(self, statement: Node) -> bool:
        """Whether the other version asks for all that a statement's conditions ask for."""
        among = self._new.conditions
        return all(has_counterpart(a, self._old, self._new, among) for a in atoms_of(statement))

    def _keeps(self, statement: Node) -> bool:
        """Whether a statement that never ran stands in the other version, where the same decides about it."""
        if statement.type not in _LEADS:
            header = header_of(statement)
            if not self._stands(header) and not (header is not statement and self._asks(statement)):
                return False
        guard = next(self._old.guards(statement), None)
        return guard is None or self._stands(header_of(guard)) or self._asks(guard)

    def _meant(self, statement: Node, one: OneSided) -> list[Node]:
        """The conditions that a comparison may be; of a loop none: how often it turns is asked otherwise."""
        atoms = atoms_of(statement) if statement.type not in LOOPS else []
        return [atom for atom in atoms if self._may_be(atom, one)]

    def _lost(self, statement: Node, meant: Sequence[Node]) -> bool:
        """Whether the other version has neither the statement nor any of these conditions."""
        among = self._new.conditions
        return not self._stands(header_of(statement)) and not any(
            has_counterpart(atom, self._old, self._new, among) for atom in meant
        )

    def _may_be(self, atom: Node, one: OneSided) -> bool:
        """By the numbers that are compared with: a condition's own, or a name that may stand for one."""
        given = [value for c in one.constants if (value := _value(c)) is not None]
        words = self._old.words(atom)
        own = [value for word in words if (value := number_of(word)) is not None]
        if not given:
            return not one.constants
        return any(abs(a - b) <= 1 for a in given for b in own) or not own

    def _turns(self, loop: Node) -> bool:
        atoms = atoms_of(loop)
        among = self._new.turns
        return not atoms or any(has_counterpart(a, self._old, self._new, among) for a in atoms)


def _value(constant: str) -> float | None:
    """A constant of PTX, where it is an integer."""
    try:
        return int(constant, 0)
    except ValueError:
        return None


def _named(lines: set[int]) -> str:
    """The first stretch of lines, in words."""
    ordered = sorted(lines)
    last = ordered[0]
    while last + 1 in lines:
        last += 1
    return f"line {last}" if last == ordered[0] else f"lines {ordered[0]} to {last}"
