# SPDX-License-Identifier: Apache-2.0
"""Which pointer parameters of a kernel may point into the same buffer, as far as the file shows."""

from __future__ import annotations

import functools
import re

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.syntax.tree import Leaf, SourceTree
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.cuda.values.pointers import PointerReader

_CAST = re.compile(r"\(\s*(?:const\s+)?[\w:]+(?:\s*<[^<>]*>)?\s*(?:const\s*)?\*+\s*\)|\w+_cast\s*<[^<>]*>")
_WORD = re.compile(r"[A-Za-z_]\w*")
_ASSIGNED = re.compile(r"\b([A-Za-z_]\w*)\s*=\s*(?:\([^()]*\*\s*\)\s*)?&?\s*([A-Za-z_]\w*)\b(?!\s*[(<])")


def same_buffer(tree: SourceTree, model: SourceModel, kernel: Kernel) -> frozenset[str]:
    """Pointer parameters to which some launch in the file passes one buffer twice.

    `f(a, a + n)` counts, and so does an argument that was assigned from another: whether such ranges
    overlap is not decided here.
    """
    pointers = [i for i, p in enumerate(kernel.parameters) if p.pointer]
    roots = tree.remembered("roots", lambda: _Roots(tree))
    found: set[str] = set()
    for site in model.launches_of(kernel):
        if len(site.arguments) != len(kernel.parameters):
            continue
        by_root: dict[str, list[int]] = {}
        for index in pointers:
            by_root.setdefault(roots.of(site.arguments[index]), []).append(index)
        for root, indices in by_root.items():
            if len(indices) > 1 and root not in ("", "nullptr", "NULL"):
                found |= {kernel.parameters[i].name for i in indices}
    return frozenset(found)


class _Roots:
    """The variable behind a host expression, through plain pointer assignments anywhere in the file."""

    def __init__(self, tree: SourceTree) -> None:
        self._from: dict[str, set[str]] = {}
        for leaf in tree.leaves:
            for target, source in _assignments(tree, leaf):
                self._from.setdefault(target, set()).add(source)

    def of(self, argument: str) -> str:
        """The first variable of `argument` without casts, followed while it was assigned from one other."""
        name, path = _start_of(argument)
        if path:
            return path
        seen = {name}
        while len(sources := self._from.get(name, set()) - {"nullptr", "NULL"}) == 1:
            name = next(iter(sources))
            if name in seen:
                break
            seen.add(name)
        return name


@functools.lru_cache(maxsize=1024)
def _start_of(argument: str) -> tuple[str, str]:
    """The first variable of an argument, and the path of a member or an element, "" where it is none."""
    text = _CAST.sub(" ", argument)
    found = _WORD.search(text)
    if found is None:
        return "", ""
    # Members such as `buffers.in` and `d[0]` stay apart by their whole path.
    path = re.match(rf"[\s&(]*({re.escape(found[0])}(?:\s*(?:\.|->)\s*\w+|\s*\[[^\[\]]*\])+)", text)
    whole = path is not None and not re.search(r"[+-]", text) and not text.strip().startswith("&")
    return found[0], "".join(path[1].split()) if path is not None and whole else ""


def _assignments(tree: SourceTree, leaf: Leaf) -> list[tuple[str, str]]:
    code = tree.masked.source[leaf.node.start_byte : leaf.node.end_byte]
    found: list[tuple[str, str]] | None = tree.carried(("assignments", code))
    if found is None:
        found = _ASSIGNED.findall(code)
        tree.carry(("assignments", code), found)
    return found


def mixed(tree: SourceTree, kernel: Kernel) -> frozenset[str]:
    """Pointer parameters that the kernel compares, subtracts, chooses between, or sets from each other."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return frozenset()
    reader = PointerReader(kernel, FormReader(expanded))
    names = {p.name for p in kernel.parameters if p.pointer}
    found: set[str] = set()
    pattern = "[(binary_expression) (conditional_expression) (assignment_expression)] @mix"
    for node in expanded.tree.captures(pattern, expanded.function.body).get("mix", []):
        roots = {p.name for c in _operands(node) if (p := reader.pointer(c)) is not None} & names
        if len(roots) > 1:
            found |= roots
    return frozenset(found)


def _operands(node: Node) -> list[Node]:
    fields = ("left", "right", "consequence", "alternative")
    return [child for field in fields if (child := node.child_by_field_name(field)) is not None]
