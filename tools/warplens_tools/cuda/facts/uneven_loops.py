# SPDX-License-Identifier: Apache-2.0
"""Loops whose number of iterations differs between the lanes of a warp by their data: rows of their own lengths, steps
until a value has settled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.data_branches import BodyNames, names_in
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.text import Span

#: What the lanes of a warp do together: the loop is then the warp's, and as long for all of them.
_TOGETHER = re.compile(
    r"__(?:shfl|ballot|any|all|syncwarp|syncthreads|activemask|reduce)|\b(?:lane|lane_?id|laneIdx|warpSize|WARP_?SIZE)\b"
    r"|%\s*32\b|&\s*(?:31|0x1[fF])\b|>>\s*5\b|/\s*32\b|tiled_partition",
    re.IGNORECASE,
)
#: Waiting for others is no work of one's own.
_WAITS = re.compile(r"\batomic[A-Z]|\bvolatile\b|__threadfence")
_SIZE = re.compile(r"\bsizeof\s*\([^()]*\)")
_ELEMENT = re.compile(r"\b([A-Za-z_]\w*)(?:(?:\.|->)\w+)*\s*\[")
_WORD = re.compile(r"[A-Za-z_]\w*")
_MEMBER = re.compile(r"(?:\.|->)\s*[A-Za-z_]\w*")
_STEPPED = re.compile(r"(?:\+\+|--)\s*([A-Za-z_]\w*)|\b([A-Za-z_]\w*)\s*(?:\+\+|--|[-+]=(?!=))")
_SET = re.compile(r"\b([A-Za-z_]\w*)\s*(?:[*/%&|^]|<<|>>)?=(?!=)")


class UnevenLoop(msgspec.Struct, frozen=True):
    """One loop that lanes leave at different times."""

    span: Span
    #: What ends it, as written.
    condition: str
    #: "length": each lane has loaded how long it is; "data": what its iterations work out ends it.
    by: Literal["length", "data"]


def uneven_loops(tree: SourceTree, kernel: Kernel) -> tuple[UnevenLoop, ...]:
    """The outermost such loops of the kernel's own text; none of kernels whose warps work on one element together."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None or kernel.broken:
        return ()
    code = expanded.tree.code_of(expanded.function.body)
    if not re.search(r"\b(?:for|while)\b", code) or _TOGETHER.search(code):
        return ()
    own = frozenset(a.name for a in kernel.arrays if a.space == "local")
    found = sorted(_found(expanded, names_in(expanded, kernel), own), key=lambda u: u.span)
    return tuple(u for u in found if not any(o is not u and o.span.contains(u.span) for o in found))


def _found(expanded: KernelTree, names: BodyNames, own: frozenset[str]) -> Iterator[UnevenLoop]:
    tree = expanded.tree
    for node in walk(expanded.function.body):
        condition = node.child_by_field_name("condition") if node.type in LOOPS else None
        body = node.child_by_field_name("body")
        if condition is None or body is None or _WAITS.search(tree.code_of(node)):
            continue
        ended = _by_length(tree, condition, body, names, own)
        if ended is None:
            ended = _by_data(tree, node, condition, body, names)
        if ended is not None:
            test, by = ended
            yield UnevenLoop(tree.span(node), " ".join(tree.text_of(test).split()), by)


def _by_length(
    tree: SourceTree, condition: Node, body: Node, names: BodyNames, own: frozenset[str]
) -> tuple[Node, Literal["length", "data"]] | None:
    """A bound that each lane has loaded, and that the loop leaves alone; `own` are the thread's own arrays."""
    code = _SIZE.sub("0", tree.code_of(condition))
    used = _words(code)
    changed = _changed(tree.code_of(body))
    bounds = (used & names.data) - changed - _stepped(tree, condition)
    loads = bool(set(_ELEMENT.findall(code)) - own) and bool(used & names.lanes)
    return (condition, "length") if bounds or loads else None


def _stepped(tree: SourceTree, condition: Node) -> set[str]:
    """What the header of a `for` steps."""
    update = condition.parent.child_by_field_name("update") if condition.parent is not None else None
    return {a or b for a, b in _STEPPED.findall(tree.code_of(update))} if update is not None else set()


def _by_data(
    tree: SourceTree, loop: Node, condition: Node, body: Node, names: BodyNames
) -> tuple[Node, Literal["length", "data"]] | None:
    """A condition, or that of an `if (…) break;`, on what the iterations work out of a lane's data."""
    code = tree.code_of(body)
    worked = {name for name in _SET.findall(_MEMBER.sub("", code)) if name in names.lanes}
    if _words(tree.code_of(condition)) & worked:
        return condition, "data"
    for node in walk(body):
        test = node.child_by_field_name("condition") if node.type == "if_statement" else None
        then = node.child_by_field_name("consequence")
        if test is None or then is None or not _breaks(then, loop):
            continue
        if _words(tree.code_of(test)) & worked & (names.data | worked):
            return test, "data"
    return None


def _breaks(then: Node, loop: Node) -> bool:
    """Whether a branch leaves the loop."""
    for node in walk(then):
        if node.type != "break_statement":
            continue
        around = node.parent
        while around is not None and around.type not in LOOPS and around.type != "switch_statement":
            around = around.parent
        if around is not None and around.id == loop.id:
            return True
    return False


def _changed(code: str) -> set[str]:
    return {a or b for a, b in _STEPPED.findall(code)} | set(_SET.findall(code))


def _words(code: str) -> set[str]:
    return set(_WORD.findall(_MEMBER.sub("", code)))
