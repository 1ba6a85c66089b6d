# SPDX-License-Identifier: Apache-2.0
"""Random generators that each thread sets up to a subsequence of its own: `curand_init(seed, i, 0, &state)`."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.lane_names import lane_names, mentions_lanes
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.callees import called_names, functions_named
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.text import Span

_CALLS = "(call_expression function: (identifier) @callee) @call"
_SETS_UP = re.compile(r"(?:cu|hip|roc)rand_init")
#: Generators whose subsequences are counters: they begin anywhere for nothing.
_COUNTED = re.compile(r"Philox|PHILOX|Sobol|SOBOL|Threefry|THREEFRY")
_DRAWS = re.compile(r"\b(?:cu|hip|roc)rand(?!_init|State|_?[Gg]enerator)\w*\s*\(")
#: The seed, the subsequence, the offset and the state.
_ARGUMENTS = 4


class GeneratorSetup(msgspec.Struct, frozen=True):
    """One call that skips ahead to a thread's own subsequence."""

    span: Span
    #: The subsequence, as written.
    subsequence: str
    #: The kernel draws numbers too, so that each of its launches sets up again.
    draws: bool


def generator_setups(tree: SourceTree, kernel: Kernel) -> tuple[GeneratorSetup, ...]:
    """Every such call in the kernel's own text, in text order; generators that count are left out."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    code = expanded.tree.code_of(expanded.function.body)
    if "rand_init" not in code or _COUNTED.search(expanded.tree.code_of(expanded.function.node)):
        return ()
    called = (f.body for n in called_names(tree, code) for f in functions_named(tree, n))
    draws = bool(_DRAWS.search(code)) or any(_DRAWS.search(tree.code_of(body)) for body in called)
    varying = lane_names(code)
    calls = expanded.tree.captures(_CALLS, expanded.function.body).get("call", [])
    found = ((call, _subsequence(expanded.tree, call, varying)) for call in calls)
    return tuple(GeneratorSetup(expanded.tree.span(call), own, draws) for call, own in found if own)


def _subsequence(tree: SourceTree, call: Node, varying: frozenset[str]) -> str:
    """The subsequence of a set-up where threads differ in it; else ""."""
    function, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
    if function is None or listed is None or not _SETS_UP.fullmatch(tree.code_of(function)):
        return ""
    given = [n for n in listed.named_children if n.type != "comment"]
    own = " ".join(tree.code_of(given[1]).split()) if len(given) == _ARGUMENTS else ""
    return own if mentions_lanes(own, varying) else ""
