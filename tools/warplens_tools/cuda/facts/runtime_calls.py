# SPDX-License-Identifier: Apache-2.0
"""Calls of the device's run-time system that every thread makes: `printf`, and memory of the device's heap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.guards import Guards
from warplens_tools.cuda.facts.lane_names import lane_names
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.callees import called_names, functions_named
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.text import Span

_PRINTS = frozenset({"printf", "::printf", "std::printf"})
_ALLOCATES = frozenset({"malloc", "::malloc", "std::malloc"})
#: What a text that calls any of them holds.
_WORDS = ("printf", "malloc", "new")


class RuntimeCall(msgspec.Struct, frozen=True):
    """One call that threads come to as a matter of course: no test of data keeps it for errors, none of indices for a
    few of them."""

    kind: Literal["print", "heap"]
    span: Span
    #: The device function it stands in; "" for the kernel itself.
    function: str
    #: The kernel's loops around it.
    looped: bool


def runtime_calls(tree: SourceTree, kernel: Kernel) -> tuple[RuntimeCall, ...]:
    """Those of the kernel, then memory that device functions of its file which it calls ask for, in text order each."""
    return tree.remembered(("run-time calls", kernel.span, kernel.name), lambda: tuple(_every(tree, kernel)))


def _every(tree: SourceTree, kernel: Kernel) -> Iterator[RuntimeCall]:
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return
    body = expanded.function.body
    code = expanded.tree.code_of(body)
    yield from _made(expanded.tree, body, "", Guards(FormReader(expanded), lane_names(code)))
    for name in sorted(called_names(tree, code)):
        for function in functions_named(tree, name):
            if function.is_device:
                yield from _made(tree, function.body, name, None)


def _made(tree: SourceTree, body: Node, function: str, guards: Guards | None) -> Iterator[RuntimeCall]:
    """The calls of one body; of a function without the kernel's guards those that stand in no branch."""
    if not any(word in tree.code_of(body) for word in _WORDS):
        return
    for node in walk(body):
        kind = _kind(tree, node)
        if kind is None or (guards is None and (kind == "print" or _is_in_branch(node, body))):
            continue
        if tree.may_be_left_out(node.start_byte) or _leaves(node, body):
            continue
        tests = guards.tests(node) if guards is not None else ()
        if guards is not None and (guards.data(tests) or guards.are_few(tests)):
            continue
        yield RuntimeCall(kind, tree.span(node), function, bool(loops_around(tree, node)))


def _kind(tree: SourceTree, node: Node) -> Literal["print", "heap"] | None:
    if node.type == "new_expression":
        return None if node.child_by_field_name("placement") is not None else "heap"
    called = node.child_by_field_name("function") if node.type == "call_expression" else None
    name = "".join(tree.code_of(called).split()) if called is not None else ""
    return "print" if name in _PRINTS else "heap" if name in _ALLOCATES else None


def _leaves(node: Node, body: Node) -> bool:
    """Whether it stands in a branch by which threads that have nothing to do leave."""
    around = node.parent
    while around is not None and around.id != body.id:
        last = (
            around.named_children[-1]
            if around.type == "compound_statement" and around.named_children
            else None
        )
        if last is not None and last.type == "return_statement":
            return True
        around = around.parent
    return False


def _is_in_branch(node: Node, body: Node) -> bool:
    around = node.parent
    while around is not None and around.id != body.id:
        if around.type in ("if_statement", "conditional_expression", "switch_statement"):
            return True
        around = around.parent
    return False
