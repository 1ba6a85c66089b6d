# SPDX-License-Identifier: Apache-2.0
"""Trees and scans over a block in shared memory, written with a barrier after every step: loops that halve or double a
distance, and the same steps written one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.callees import called_names, functions_named
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.text import Span

_BARRIER = re.compile(
    r"\b__syncthreads\s*\(\s*\)|\bsync\s*\(\s*\w*block\w*\s*\)|\b\w*block\w*\s*\.\s*sync\s*\(\s*\)"
)
#: A distance that goes by powers of two: `s >>= 1`, `s /= 2`, `d = d << 1`, `d += d`.
_POWERS = re.compile(
    r"\b([A-Za-z_]\w*)\s*(?:>>=\s*1\b|<<=\s*1\b|/=\s*2\b|\*=\s*2\b|=\s*\1\s*(?:>>|<<)\s*1\b|=\s*\1\s*[/*]\s*2\b|\+=\s*\1\b)"
)
#: A loop that leaves what fits a warp alone: `s > 32`, `s >= 64`.
_ENDS_AT_WARP = re.compile(r"\w\s*(?:>\s*(?:32|warpSize|WARP_SIZE)|>=?\s*64)\b", re.IGNORECASE)
_STEP = re.compile(r"\w+\s*>=\s*(1024|512|256|128|64)\b")
#: Steps that are written one by one from which they are a tree.
_WRITTEN = 3
_ELEMENT = re.compile(r"\b([A-Za-z_]\w*)\s*\[")


class BarrierTree(msgspec.Struct, frozen=True):
    """A tree or scan whose every step ends at a barrier of the block."""

    #: The loop's head, or the first of the steps.
    span: Span
    #: What a step reads and writes, as written.
    names: tuple[str, ...]
    #: The innermost loop that repeats the whole of it; None where none does, or a caller's would.
    around: Span | None
    #: The device function that it stands in; "" for the kernel itself.
    function: str


def barrier_trees(tree: SourceTree, kernel: Kernel, *, down_to_warp: bool = False) -> tuple[BarrierTree, ...]:
    """Those of the kernel's own text, then those of the device functions of its file that it calls; with
    `down_to_warp` loops alone that leave the last steps to a warp."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    body = expanded.function.body
    code = expanded.tree.code_of(body)
    found = list(_in_body(expanded.tree, body, "", down_to_warp)) if _BARRIER.search(code) else []
    for name in sorted(called_names(tree, code)):
        for function in functions_named(tree, name):
            if function.is_device and _BARRIER.search(tree.code_of(function.body)):
                found += _in_body(tree, function.body, name, down_to_warp)
    return tuple(found)


def _in_body(tree: SourceTree, body: Node, function: str, down_to_warp: bool) -> Iterator[BarrierTree]:
    for node in walk(body):
        if node.type in LOOPS and _is_tree(tree, node, down_to_warp):
            yield _told(tree, node, node, function)
        elif node.type == "compound_statement" and not down_to_warp:
            first = _written_steps(tree, node)
            if first is not None:
                yield _told(tree, first, node, function)


def _is_tree(tree: SourceTree, loop: Node, down_to_warp: bool) -> bool:
    """Whether a loop goes by powers of two and waits for the block in each step; one within such a loop sorts."""
    body = loop.child_by_field_name("body")
    if body is None or not _BARRIER.search(tree.code_of(loop)) or _inner_barriers(tree, body):
        return False
    if not _POWERS.search(_without_inner(tree, loop)):
        return False  # A loop within may go by powers of two, as of shuffles; this one does not.
    head = tree.code_of(loop)[: body.start_byte - loop.start_byte]
    if bool(_ENDS_AT_WARP.search(head)) is not down_to_warp or not _ELEMENT.search(tree.code_of(body)):
        return False
    outer = loops_around(tree, loop)
    return not any(_POWERS.search(_own_code(tree, around, loop)) for around in outer)


def _without_inner(tree: SourceTree, loop: Node) -> str:
    """A loop's code, blank where any loop in it stands."""
    code = tree.code_of(loop)
    for inner in walk(loop):
        if inner.type in LOOPS and inner != loop:
            code = _blanked(code, loop, inner)
    return code


def _own_code(tree: SourceTree, loop: Node, inner: Node) -> str:
    """A loop's code, blank where a loop in it stands."""
    return _blanked(tree.code_of(loop), loop, inner)


def _blanked(code: str, loop: Node, inner: Node) -> str:
    """The code of a loop with blanks for one in it, so that every offset stays what it is in the text."""
    first, end = inner.start_byte - loop.start_byte, inner.end_byte - loop.start_byte
    return f"{code[:first]}{' ' * (end - first)}{code[end:]}"


def _inner_barriers(tree: SourceTree, body: Node) -> bool:
    """Whether the barriers stand in a loop within."""
    return any(node.type in LOOPS and _BARRIER.search(tree.code_of(node)) for node in walk(body))


def _written_steps(tree: SourceTree, block: Node) -> Node | None:
    """The first of several `if (size >= 512) { … __syncthreads(); }` in a list of statements; None where they are
    fewer."""
    sizes: dict[str, Node] = {}
    for child in block.named_children:
        condition = child.child_by_field_name("condition") if child.type == "if_statement" else None
        step = _STEP.search(tree.code_of(condition)) if condition is not None else None
        if step is not None and _BARRIER.search(tree.code_of(child)):
            sizes.setdefault(step[1], child)
    return min(sizes.values(), key=lambda n: n.start_byte) if len(sizes) >= _WRITTEN else None


def _told(tree: SourceTree, at: Node, steps: Node, function: str) -> BarrierTree:
    around = loops_around(tree, at)
    names = tuple(dict.fromkeys(_ELEMENT.findall(tree.code_of(steps if steps.type in LOOPS else at))))
    return BarrierTree(tree.span(at), names, tree.span(around[-1]) if around else None, function)
