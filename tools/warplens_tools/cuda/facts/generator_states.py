# SPDX-License-Identifier: Apache-2.0
"""Random numbers that a loop draws from a generator whose state stays in global memory: `curand_normal(&states[i])`."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.cuda.values.pointers import PointerReader
from warplens_tools.text import Span

_DRAWS = re.compile(r"(?:cu|hip)rand(?:_\w+)?")
_CALLS = "(call_expression function: (identifier) @callee) @call"


class DrawnInLoop(msgspec.Struct, frozen=True):
    """A call in a loop that loads, advances and stores a state of global memory."""

    span: Span
    #: The loop's.
    loop: Span
    #: The states' array.
    name: str


def drawn_in_loops(tree: SourceTree, kernel: Kernel) -> tuple[DrawnInLoop, ...]:
    """Every such call in the kernel's own text, in text order, where the loop stays with one state."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None or "rand" not in expanded.tree.code_of(expanded.function.body):
        return ()
    forms = FormReader(expanded)
    pointers = PointerReader(kernel, forms)
    calls = expanded.tree.captures(_CALLS, expanded.function.body).get("call", [])
    found = (_drawn(expanded.tree, forms, pointers, call) for call in calls)
    return tuple(d for d in found if d is not None)


def _drawn(tree: SourceTree, forms: FormReader, pointers: PointerReader, call: Node) -> DrawnInLoop | None:
    function, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
    around = loops_around(tree, call)
    if function is None or listed is None or not around or not listed.named_children:
        return None
    if not _DRAWS.fullmatch(tree.code_of(function)) or tree.code_of(function).endswith("_init"):
        return None
    state, loop = pointers.pointer(listed.named_children[0]), forms.loop(around[-1])
    if state is None or state.space != "global" or state.traced is None:
        return None
    moves = loop.counter and state.traced.mentions(loop.counter)
    return None if moves else DrawnInLoop(tree.span(call), loop.span, state.name)
