# SPDX-License-Identifier: Apache-2.0
"""Tables that few threads of a block fill, entry after entry, while the others wait at a barrier behind it."""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.guards import Guards
from warplens_tools.cuda.facts.lane_names import lane_names
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.callees import called_names, functions_named, parameter_names
from warplens_tools.cuda.syntax.tree import SourceTree, is_assigned, walk
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.text import Span

_BARRIER = re.compile(r"\b__syncthreads\s*\(|\bbarrier\w*\s*\(|\.sync\s*\(\s*\)")
_NAME = re.compile(r"[A-Za-z_]\w*")


class LoneFill(msgspec.Struct, frozen=True):
    """A branch of few threads that stores many elements, none of them in a loop of the text's."""

    #: What the branch does, and the condition that lets so few.
    span: Span
    condition: Span
    #: Stores of its text, those of the device functions that it calls included.
    stores: int
    #: What is stored to, as the kernel or the function names it.
    names: tuple[str, ...]


def lone_fills(
    tree: SourceTree, kernel: Kernel, least: int, block: Dim3 = UNKNOWN_DIM3
) -> tuple[LoneFill, ...]:
    """Branches of at least so many stores with a barrier behind them, in text order, outermost ones."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None or kernel.broken:
        return ()
    body = expanded.function.body
    code = expanded.tree.code_of(body)
    if not _BARRIER.search(code):
        return ()
    guards = Guards(FormReader(expanded, block), lane_names(code))
    own = frozenset(a.name for a in kernel.arrays if a.space == "local")
    found: list[LoneFill] = []
    for node in walk(body):
        branch = node.child_by_field_name("consequence") if node.type == "if_statement" else None
        if branch is None or not _BARRIER.search(code[branch.end_byte - body.start_byte :]):
            continue
        span = expanded.tree.span(branch)
        if any(outer.span.contains(span) for outer in found):
            continue
        few = next((t for t in guards.tests(branch) if guards.are_few((t,)) and not guards.of_block(t)), None)
        stored = _stored(expanded.tree, branch, own) if few is not None else []
        for name in sorted(called_names(tree, expanded.tree.code_of(branch))) if few is not None else ():
            functions = [f for f in functions_named(tree, name) if f.is_device]
            if len(functions) == 1:
                given = frozenset(parameter_names(tree, functions[0]))
                stored += [n for n in _stored(tree, functions[0].body, frozenset()) if n in given]
        if few is not None and len(stored) >= least:
            names = tuple(dict.fromkeys(stored))
            found.append(LoneFill(span, expanded.tree.span(few.node), len(stored), names))
    return tuple(found)


def _stored(tree: SourceTree, within: Node, own: Collection[str]) -> list[str]:
    """The array of every store to an element, but those of arrays of the thread's own."""
    every = (n for n in walk(within) if n.type == "subscript_expression" and is_assigned(n))
    names = (found[0] for n in every if (found := _NAME.search(tree.code_of(n))) is not None)
    return [name for name in names if name not in own]
