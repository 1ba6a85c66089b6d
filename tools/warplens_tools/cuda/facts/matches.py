# SPDX-License-Identifier: Apache-2.0
"""What a kernel does where a key matches: `if (hash[0] == wanted[0] && hash[1] == wanted[1] && …)` lets hardly any
thread through."""

from __future__ import annotations

from warplens_tools.cuda.facts.guards import Guards
from warplens_tools.cuda.facts.lane_names import lane_names
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.text import Span

#: Equalities of data that all must hold, from which they compare a key word by word: neighbours agree in one label, or
#: in two.
_WORDS = 3


def matched_sides(tree: SourceTree, kernel: Kernel) -> tuple[tuple[int, Span], ...]:
    """Every such `if`: the line of its test, and what it guards."""
    key = ("matched sides", kernel.span, kernel.name)
    return tree.remembered(key, lambda: _matched_sides(tree, kernel))


def _matched_sides(tree: SourceTree, kernel: Kernel) -> tuple[tuple[int, Span], ...]:
    expanded = kernel_tree(tree, kernel)
    if expanded is None or kernel.broken or "==" not in expanded.tree.code_of(expanded.function.body):
        return ()
    guards = Guards(FormReader(expanded), lane_names(expanded.tree.code_of(expanded.function.body)))
    found = []
    for node in walk(expanded.function.body):
        then, test = node.child_by_field_name("consequence"), node.child_by_field_name("condition")
        if node.type != "if_statement" or then is None or test is None:
            continue
        own = [
            t for t in guards.tests(then) if test.start_byte <= t.node.start_byte < test.end_byte and t.holds
        ]
        signs = (t.node.child_by_field_name("operator") for t in guards.data(own))
        if sum(sign is not None and sign.type == "==" for sign in signs) >= _WORDS:
            found.append((expanded.tree.span(test).line, expanded.tree.span(then)))
    return tuple(found)
