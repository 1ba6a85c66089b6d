# SPDX-License-Identifier: Apache-2.0
"""What the threads of a block have alike: conditions, ends of the kernel, and functions that tell them apart."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import SourceTree, holds, walk
from warplens_tools.rewrite.common.kernel_reader import KernelReader

_BY_THREAD = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|__shared__)\b")
_NAMED = re.compile(r"(\w+)\s*\(")
_AROUND = frozenset({"for_statement", "while_statement", "do_statement"})
_LEAVE = frozenset({"return_statement", "break_statement", "continue_statement", "goto_statement"})
_READ = ("call_expression", "subscript_expression", "pointer_expression")
_BRANCHES = frozenset(
    {"if_statement", "for_statement", "while_statement", "do_statement", "switch_statement"}
)
_TARGETS = {"assignment_expression": "left", "update_expression": "argument", "init_declarator": "declarator"}
#: Where threads get values of their own from.
_OWN = ("threadIdx", "laneid", "thread_rank", "clock", "atomic", "curand", "__shfl", "__ballot", "__match")
#: A variable by its name and where it is declared.
_Key = tuple[str, tuple[int, int]]


def numbering_functions(tree: SourceTree) -> frozenset[str]:
    """Functions of a file, by name, that number threads themselves or share memory."""
    found = set[str]()
    for node in walk(tree.root):
        declarator = node.child_by_field_name("declarator") if node.type == "function_definition" else None
        if declarator is not None and _BY_THREAD.search(tree.code_of(node)):
            name = _NAMED.search(tree.code_of(declarator))
            found |= {name[1]} if name is not None else set()
    return frozenset(found)


def is_uniform(reader: KernelReader, node: Node) -> bool:
    """Whether all threads of a block find an expression of integers alike."""
    if any(n.type in _READ for n in walk(node)):
        return False
    for name in walk(node):
        if name.type not in ("identifier", "field_expression") or name.parent is None:
            continue
        if name.type == "identifier" and name.parent.type == "field_expression":
            continue
        form = reader.forms.form(name)
        if form is None or not form.uniform:
            return False
    return True


def why_not_all(reader: KernelReader, node: Node) -> str:
    """Why not all threads of a block come to a statement; "" where they do."""
    current = node.parent
    while current is not None and current.id != reader.body.id:
        test = current.child_by_field_name("condition") if current.type in _BRANCHES else None
        inner = (test.child_by_field_name("value") or test) if test is not None else None
        if inner is not None and not is_uniform(reader, inner):
            return "not all threads of the block come to the section"
        current = current.parent
    around = next(
        (n for n in walk(reader.body) if n.type in _AROUND and n.id != node.id and holds(n, node)), None
    )
    for leave in walk(reader.body):
        if leave.type not in _LEAVE or holds(node, leave):
            continue
        if _keeps_from(leave, node, around) and not _leave_all(reader, leave):
            return "some threads of the block leave before the section"
    return ""


def _keeps_from(leave: Node, node: Node, around: Node | None) -> bool:
    """Whether a jump leaves out a statement, in this round of the loops around it or in later ones."""
    if leave.type in ("return_statement", "goto_statement"):
        return leave.start_byte < node.start_byte or (around is not None and holds(around, leave))
    left = leave.parent
    ends = _AROUND if leave.type == "continue_statement" else _AROUND | {"switch_statement"}
    while left is not None and left.type not in ends:
        left = left.parent
    return left is not None and holds(left, node)


def _leave_all(reader: KernelReader, leave: Node) -> bool:
    """Whether all threads of a block jump where one does: by all conditions around it."""
    at, found = leave.parent, False
    while at is not None and at.id != reader.body.id:
        test = at.child_by_field_name("condition") if at.type in _BRANCHES else None
        inner = (test.child_by_field_name("value") or test) if test is not None else None
        if inner is not None and not is_uniform(reader, inner):
            return False
        found, at = found or at.type == "if_statement", at.parent
    return found


class VaryingNames:
    """The variables that may differ between the threads of a block, by what happens before byte `end`.

    They differ by data that come of a thread's number or of what it gets for itself, and where they are set under a
    condition that does. Branches that hold `inner` are left out: all threads come there, or none that matters.
    """

    def __init__(self, reader: KernelReader, end: int, inner: Node) -> None:
        self.reader, self._end = reader, end
        self._first = numbering_functions(reader.tree.file)
        #: Threads that read one element between two barriers find it alike, whoever has put it there.
        self._shared = {a.name for a in reader.kernel.arrays if a.space == "shared"}
        nodes = [n for n in walk(reader.body) if n.start_byte < end]
        flows = [flow for n in nodes if n.type in _TARGETS for flow in [self._flow(n)] if flow is not None]
        branches = [(n, self._condition(n)) for n in nodes if n.type in _BRANCHES and not holds(n, inner)]
        self.varying: set[_Key] = set()
        known = -1
        while known < len(self.varying):
            known = len(self.varying)
            chosen = [n for n, test in branches if test is not None and self.among(test)]
            for node, target, used in flows:
                if any(self._varies(n) for n in used) or any(holds(branch, node) for branch in chosen):
                    self.varying.add(target)

    def among(self, node: Node) -> bool:
        """Whether an expression or a statement has to do with one of them."""
        return any(n.type == "identifier" and self._varies(n) for n in walk(node))

    def _condition(self, node: Node) -> Node | None:
        return node.child_by_field_name("condition")

    def _varies(self, node: Node) -> bool:
        name = self.reader.tree.code_of(node)
        return name.startswith(_OWN) or name in self._first or self._key(node) in self.varying

    def _key(self, node: Node, at: int | None = None) -> _Key:
        name = self.reader.tree.code_of(node)
        binding = self.reader.expanded.constants.binding(name, node.start_byte if at is None else at)
        return name, binding.declaration if binding is not None else (0, 0)

    def _flow(self, node: Node) -> tuple[Node, _Key, list[Node]] | None:
        """What a statement sets, and from what."""
        target = node.child_by_field_name(_TARGETS[node.type])
        name = next((n for n in walk(target) if n.type == "identifier"), None) if target is not None else None
        if name is None or self.reader.tree.code_of(name) in self._shared:
            return None
        value = node.child_by_field_name("right") or node.child_by_field_name("value")
        used = [n for n in walk(value) if n.type == "identifier"] if value is not None else []
        at = node.end_byte if node.type == "init_declarator" else None
        return node, self._key(name, at), used
