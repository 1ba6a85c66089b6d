# SPDX-License-Identifier: Apache-2.0
"""Whether a kernel prints as a matter of course: a demonstration, or code under examination.

`printf` formats into a buffer that the whole device shares and the host empties; a kernel that comes to one in every
launch is bound by it. Behind a test of data it reports an error, which an ordinary run never does.
"""

from __future__ import annotations

from warplens_tools.cuda.facts.guards import Guards
from warplens_tools.cuda.facts.lane_names import lane_names
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import kernel_tree

_PRINTS = ("printf", "::printf", "std::printf")


def prints(tree: SourceTree, kernel: Kernel) -> bool:
    """Whether a call of `printf` in the kernel's own text hangs on no data."""
    return tree.remembered(("prints", kernel.span), lambda: _prints(tree, kernel))


def _prints(tree: SourceTree, kernel: Kernel) -> bool:
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return False
    body = expanded.function.body
    if "printf" not in expanded.tree.code_of(body):
        return False
    found = expanded.tree.captures("(call_expression function: (_) @called) @call", body)
    calls = [
        node.parent
        for node in found.get("called", [])
        if expanded.tree.code_of(node) in _PRINTS and node.parent is not None
    ]
    guards = Guards(FormReader(expanded), lane_names(expanded.tree.code_of(body)))
    return any(not guards.data(guards.tests(call)) for call in calls)
