# SPDX-License-Identifier: Apache-2.0
"""Neighbouring elements that a thread takes one by one from a place that its data choose: the features of a chosen
point, in a loop over them or by constant offsets."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.data_branches import BodyNames, names_in
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.tree import SourceTree, addends, is_assigned, walk
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.cuda.values.loop_headers import Loop
from warplens_tools.cuda.values.pointers import PointerReader
from warplens_tools.text import Span

#: Elements that are taken together, at most.
_FEW = 16
#: Constant offsets from one place from which they are told: the ends of a row are two.
_SEVERAL = 3
_WORD = re.compile(r"[A-Za-z_]\w*")
_CHOSEN = re.compile(r"\b([A-Za-z_]\w*)\s*=\s*(?:\([\w\s]*\)\s*)?[A-Za-z_]\w*\s*(?:<[^<>;]*>)?\s*\(")


class ElementGather(msgspec.Struct, frozen=True):
    """One such read."""

    span: Span
    name: str
    #: How many elements, as written.
    count: str


def element_gathers(tree: SourceTree, kernel: Kernel) -> tuple[ElementGather, ...]:
    """Those of the kernel's own text, in text order: in loops whose length is a constant or a template's parameter,
    else at constant offsets from one place."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    reader = _Reader(expanded, kernel)
    nodes = [n for n in walk(expanded.function.body) if n.type == "subscript_expression"]
    looped = tuple(g for n in nodes if (g := reader.gather(n)) is not None)
    return looped or reader.offsets(nodes)


class _Reader:
    def __init__(self, expanded: KernelTree, kernel: Kernel) -> None:
        self.tree, self.kernel = expanded.tree, kernel
        self.forms = FormReader(expanded)
        self.pointers = PointerReader(kernel, self.forms)
        self.names: BodyNames = names_in(expanded, kernel)
        code = expanded.tree.code_of(expanded.function.body)
        #: What a function works out for each lane.
        self.called = frozenset(_CHOSEN.findall(code)) & self.names.lanes

    def gather(self, node: Node) -> ElementGather | None:
        """The read that a subscript makes, where it is one."""
        around = [n for n in loops_around(self.tree, node) if n.type == "for_statement"]
        listed = node.child_by_field_name("indices")
        if not around or listed is None or listed.named_child_count != 1 or _is_changed(node):
            return None
        loop = self.forms.loop(around[-1])
        index = listed.named_children[0]
        pointer = self.pointers.element(node)
        if pointer is None or pointer.space != "global" or not self._is_fixed(loop, around[-1]):
            return None
        if pointer.offset is not None:
            return (
                None  # a place that threads and blocks tell: `__mul24(blockIdx.x, blockDim.x) + threadIdx.x`
            )
        names = [self.tree.code_of(n) for n in addends(index)]
        if loop.variable not in names or len(names) < 2:
            return None
        rest = {w for name in names if name != loop.variable for w in _WORD.findall(name)}
        if not rest & (self.names.data | self.called):
            return None
        return ElementGather(self.tree.span(node), pointer.name, self._count(loop, around[-1]))

    def offsets(self, nodes: Sequence[Node]) -> tuple[ElementGather, ...]:
        """The first of the reads at constant offsets from each such place."""
        places: dict[tuple[str, ...], dict[int, Node]] = {}
        for node in nodes:
            listed = node.child_by_field_name("indices")
            if listed is None or listed.named_child_count != 1 or _is_changed(node):
                continue
            parts = [self.tree.code_of(n).strip() for n in addends(listed.named_children[0])]
            rest = sorted(p for p in parts if not p.isdigit())
            chosen = {w for p in rest for w in _WORD.findall(p)} & (self.names.data | self.called)
            pointer = self.pointers.element(node) if chosen else None
            if pointer is not None and pointer.space == "global" and pointer.offset is None:
                offset = sum(int(p) for p in parts if p.isdigit())
                places.setdefault((pointer.name, *rest), {}).setdefault(offset, node)
        return tuple(
            ElementGather(self.tree.span(next(iter(found.values()))), key[0], str(len(found)))
            for key, found in places.items()
            if len(found) >= _SEVERAL and max(found) - min(found) < _FEW
        )

    def _is_fixed(self, loop: Loop, node: Node) -> bool:
        """Whether a loop goes from 0 by single elements to a constant or to a template's parameter."""
        begins = (
            loop.first is not None
            and loop.first.value == 0
            and loop.step is not None
            and loop.step.value == 1
        )
        if not begins or not loop.variable:
            return False
        if loop.trips is not None:
            return 2 <= loop.trips <= _FEW
        return self._count(loop, node) in self.kernel.template_parameters

    def _count(self, loop: Loop, node: Node) -> str:
        if loop.trips is not None:
            return str(loop.trips)
        condition = node.child_by_field_name("condition")
        right = condition.child_by_field_name("right") if condition is not None else None
        return self.tree.code_of(right).strip() if right is not None else ""


def _is_changed(node: Node) -> bool:
    """Whether it is stored to, or its address is taken."""
    around = node.parent
    taken = around is not None and around.type in ("pointer_expression", "update_expression")
    return taken or is_assigned(node)
