# SPDX-License-Identifier: Apache-2.0
"""The accesses of global memory in device functions that a kernel calls, with what it hands them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.accesses import AccessReader, ArrayAccess
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.callees import functions_named, parameter_names
from warplens_tools.cuda.syntax.functions import Function
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3, constants_of
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.forms import Form
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.cuda.values.loop_headers import Loop
from warplens_tools.text import Span

#: How deep calls are followed, and how many are.
_DEEPEST, _MOST = 3, 24
#: What declares a pointer.
_POINTS = re.compile(r"[*\[]")


class CalledAccess(msgspec.Struct, frozen=True):
    """One access, in the function's own text."""

    access: ArrayAccess
    #: The call in the kernel that leads there.
    call: Span
    #: The function's name.
    function: str


def called_accesses(tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3) -> tuple[CalledAccess, ...]:
    """Accesses through pointers that the kernel hands to device functions of its file, in the order of the calls.

    Of several calls of a function with the same arrays the first stands for all; overloads are left alone.
    """
    key = ("called accesses", kernel.span, kernel.name, block)
    return tree.remembered(key, lambda: tuple(_called(tree, kernel, block)))


def _called(tree: SourceTree, kernel: Kernel, block: Dim3) -> Iterator[CalledAccess]:
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return
    walker = _Walker(tree, kernel, block)
    reader = AccessReader(FormReader(expanded, block), kernel)
    for call in _calls(expanded.function.body):
        around = tuple(reader.forms.loop(n) for n in loops_around(expanded.tree, call))
        yield from walker.inside(reader, call, expanded.tree.span(call), around, 0)


def _calls(body: Node) -> Iterator[Node]:
    return (n for n in walk(body) if n.type == "call_expression")


class _Walker:
    def __init__(self, tree: SourceTree, kernel: Kernel, block: Dim3) -> None:
        self.tree, self.kernel, self.block = tree, kernel, block
        self.left = _MOST
        #: Functions with the arrays that they were handed: further calls with the same are taken to be alike.
        self.seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()

    def inside(
        self, caller: AccessReader, call: Node, place: Span, loops: tuple[Loop, ...], depth: int
    ) -> Iterator[CalledAccess]:
        """The accesses of what a call calls, and of what that calls."""
        function = self._function(caller, call)
        listed = call.child_by_field_name("arguments")
        if function is None or listed is None or self.left <= 0:
            return
        given = [n for n in listed.named_children if n.type != "comment"]
        name = self.tree.text_of(function.name_node)
        names = parameter_names(self.tree, function)
        if len(names) < len(given):
            return
        pairs = list(zip(names, given, strict=False))
        handed = {
            n: p for n, g in pairs if (p := caller.pointers.pointer(g)) is not None and p.space == "global"
        }
        key = name, tuple(sorted((n, p.name) for n, p in handed.items()))
        if not handed or key in self.seen:
            return
        self.seen.add(key)
        self.left -= 1
        passed: Mapping[str, Form | None] = {n: caller.forms.traced(g) for n, g in pairs if n not in handed}
        own = KernelTree(self.tree, function, constants_of(self.tree))
        reader = AccessReader(FormReader(own, self.block, passed), self.kernel, handed)
        for access in reader.every():
            if access.space == "global" and access.name in {p.name for p in handed.values()}:
                outside = msgspec.structs.replace(access, loops=(*loops, *access.loops))
                yield CalledAccess(outside, place, name)
        if depth + 1 < _DEEPEST:
            for inner in _calls(function.body):
                around = (*loops, *(reader.forms.loop(n) for n in loops_around(reader.tree, inner)))
                yield from self.inside(reader, inner, place, around, depth + 1)

    def _function(self, caller: AccessReader, call: Node) -> Function | None:
        """The only definition of what is called, if it is a device function."""
        callee = call.child_by_field_name("function")
        name = (
            caller.tree.code_of(callee).split("<")[0].strip().rsplit("::", 1)[-1]
            if callee is not None
            else ""
        )
        found = functions_named(self.tree, name) if name.isidentifier() else []
        if len(found) != 1 or not found[0].is_device:
            return None
        listed = found[0].declarator.child_by_field_name("parameters")
        takes_pointers = listed is not None and bool(_POINTS.search(self.tree.code_of(listed)))
        return found[0] if takes_pointers else None
