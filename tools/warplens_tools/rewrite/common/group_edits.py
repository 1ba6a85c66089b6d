# SPDX-License-Identifier: Apache-2.0
"""Writes down what `sharing` found: loops dealt out, folds joined, stores by one thread, barriers, helper functions."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.kernels import template_parameters
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.loop_headers import initialised
from warplens_tools.lazily import cached_property
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.counting import strided
from warplens_tools.rewrite.common.groups import Group, Joined, member_type, neutral
from warplens_tools.rewrite.common.reading import WORD
from warplens_tools.rewrite.common.sharing import Join, Sharing
from warplens_tools.rewrite.common.statements import KernelEdits


class GroupEdits:
    """The edits that give a thread's work to a group."""

    def __init__(self, edits: KernelEdits, group: Group) -> None:
        self.made, self.group, self.tree = edits, group, edits.tree
        self.helpers: dict[str, None] = {}

    def write(self, sharing: Sharing) -> None:
        """All edits in the kernel's body, but for how it numbers its threads."""
        for work in sharing.works:
            begin, update = strided(self.tree, work.loop, self.group.lane, self.group.width)
            _, first = initialised(work.loop.node)
            if first is not None:
                self.made.replace(first, begin)
            else:
                self.made.before(work.loop.node, f"{begin};")
            self.made.replace(work.loop.update, update)
        for join in sharing.joins:
            self._join(join)
        for name in sharing.owned if self.group.fixed else ():
            self._shrink(name)
        for run in sharing.guarded:
            if _may_dangle(run[0]):
                raise Refused("a store stands in a branch without braces that has an else")
            self.made.guard(run, f"{self.group.lane} == 0")
        for node in sharing.barriers.before:
            self.made.before(node, self.group.barrier)
        for node in sharing.barriers.behind:
            self.made.after(node, self.group.barrier)

    def _shrink(self, array: str) -> None:
        """Keep of an array the elements that a thread has: `acc[j / 32]`."""
        width = self.group.width
        for name in self.made.names(array):
            parent = name.parent
            if parent is not None and parent.type == "array_declarator":
                size = parent.child_by_field_name("size")
                if size is not None:
                    self.made.replace(size, f"({self.tree.text_of(size)} + {width} - 1) / {width}")
            elif parent is not None and (listed := parent.child_by_field_name("indices")) is not None:
                index = listed.named_children[0]
                self.made.replace(index, f"{self.tree.text_of(index)} / {width}")

    def _join(self, join: Join) -> None:
        fold = join.fold
        kind = member_type(join.kind, fold.place)
        if not kind:
            raise Refused(f"the type of {fold.place} is not known")
        if self._inner & set(WORD.findall(kind)) and kind not in self._inner:
            raise Refused(f"the type of {fold.place} is made of what the kernel alone knows")
        if join.resets:
            empty = neutral(fold, kind)
            if not empty:
                raise Refused(f"{fold.place} begins with a value that counts")
            self.made.before(join.behind, f"if ({self.group.lane} != 0) {fold.place} = {empty};")
        try:
            joined: Joined = self.group.join(fold, kind, join.companion)
        except ValueError as why:
            raise Refused(f"{fold.place} cannot be joined: {why}") from why
        self.made.after(join.behind, *joined.lines)
        self.helpers |= dict.fromkeys(self._templated(helper) for helper in joined.helpers)

    @cached_property
    def _inner(self) -> frozenset[str]:
        """Names of types that the kernel alone knows: of its template's parameters, and those that it declares."""
        function = self.made.expanded.function
        declared = {self.tree.code_of(name) for name in walk(function.body) if name.type == "type_identifier"}
        declared = {n for n in declared if _declares(self.tree.code_of(function.body), n)}
        return frozenset({*template_parameters(self.tree, function.node), *declared})

    def _templated(self, helper: str) -> str:
        """The helper function, over those of the types in it that the file does not know."""
        types = [w for w in dict.fromkeys(WORD.findall(helper)) if w in self._inner]
        return f"template <{', '.join(f'typename {t}' for t in types)}>\n{helper}" if types else helper

    def define_helpers(self, *constants: str) -> None:
        """Constants and helper functions in front of the kernel and the comment that belongs to it.

        What the file has already, word for word, is not written again; a taken name is a refusal.
        """
        text = self.made.text.text
        missing = [h for h in self.helpers if not 0 <= text.find(h) < self._start()]
        for helper in missing:
            if helper.split("{")[0] in text:
                name = re.search(r"(\w+)\(", helper)
                raise Refused(f"the file has a {name[1] if name else 'helper'} of its own")
        found = [*(c for c in constants if c), *missing]
        if found:
            at = self._in_front()
            apart = "" if at == 0 or text[:at].endswith("\n\n") else "\n"
            written = apart + "".join(f"{one.rstrip()}\n\n" for one in found)
            self.made.insert_at(at, written.replace("\n", self.made.text.newline))

    def _in_front(self) -> int:
        """Where the comment above the kernel begins, or the kernel."""
        text = self.made.text.text
        at = text.rfind("\n", 0, self._start()) + 1
        while at:
            above = text.rfind("\n", 0, at - 1) + 1
            line = text[above : at - 1].strip()
            if not line.startswith(("//", "/*", "*")) and not line.endswith("*/"):
                break
            at = above
        return at

    def _start(self) -> int:
        span = self.tree.text_span(self.made.expanded.function.start, self.made.expanded.function.start + 1)
        return self.made.text.offset(span.line, span.column)


def _declares(code: str, name: str) -> bool:
    """Whether code gives a type that name."""
    return (
        re.search(rf"\busing\s+{name}\s*=|\btypedef\b[^;]*\b{name}\s*;|\bstruct\s+{name}\b", code) is not None
    )


def _may_dangle(statement: Node) -> bool:
    """Whether an `if` put before the statement would take the `else` that follows."""
    parent = statement.parent
    if parent is None or parent.type != "if_statement":
        return False
    return parent.child_by_field_name("alternative") is not None
