# SPDX-License-Identifier: Apache-2.0
"""Tensor-core fragments that a loop loads from global memory: `wmma::load_matrix_sync(a, A + …, n)`."""

from __future__ import annotations

import msgspec

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.cuda.values.pointers import PointerReader
from warplens_tools.text import Span

_CALLS = "(call_expression function: (_) @called) @call"
_LOADS, _MULTIPLIES = "load_matrix_sync", "mma_sync"


class FragmentLoad(msgspec.Struct, frozen=True):
    """One such call in a loop that multiplies."""

    span: Span
    #: The array that it reads.
    name: str
    loop: Span


def fragment_loads(tree: SourceTree, kernel: Kernel) -> tuple[FragmentLoad, ...]:
    """Those of the kernel's own text, in text order."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None or _LOADS not in expanded.tree.code_of(expanded.function.body):
        return ()
    pointers = PointerReader(kernel, FormReader(expanded), {})
    found = []
    for node in expanded.tree.captures(_CALLS, expanded.function.body).get("called", []):
        call, loops = node.parent, loops_around(expanded.tree, node)
        listed = call.child_by_field_name("arguments") if call is not None else None
        if call is None or listed is None or not loops or not expanded.tree.code_of(node).endswith(_LOADS):
            continue
        given = [n for n in listed.named_children if n.type != "comment"]
        read = pointers.pointer(given[1]) if len(given) > 2 else None
        if read is None or read.space != "global" or _MULTIPLIES not in expanded.tree.code_of(loops[0]):
            continue
        found.append(FragmentLoad(expanded.tree.span(call), read.name, expanded.tree.span(loops[-1])))
    return tuple(found)
