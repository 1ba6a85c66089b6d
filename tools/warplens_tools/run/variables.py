# SPDX-License-Identifier: Apache-2.0
"""What a program's `__device__`, `__constant__` and `__managed__` variables hold, from their declarations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from tree_sitter import Node

from warplens_tools.cuda.syntax.declarators import read_declarator, read_specifiers
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.layouts import Record
from warplens_tools.run.elements import pointed_to
from warplens_tools.run.probe.job import JobParameter
from warplens_tools.toolchain.demangle import qualified_name

_SPACES = frozenset({"__device__", "__constant__", "__managed__"})


def variable_parameters(
    trees: Iterable[SourceTree], names: Iterable[str], records: Mapping[str, Record]
) -> dict[str, JobParameter]:
    """By the variables' names in the program what they hold, where exactly one declaration has that name."""
    declared: defaultdict[str, set[str]] = defaultdict(set)
    for tree in trees:
        for name, held in _declared(tree):
            declared[name].add(held)
    found = {}
    for name in names:
        types = declared.get(qualified_name(name).rsplit("::", 1)[-1], set())
        if len(types) == 1:
            found[name] = pointed_to(-1, next(iter(types)), records)
    return {name: p for name, p in found.items() if p.element != "other" or p.fields}


def _declared(tree: SourceTree) -> Iterator[tuple[str, str]]:
    """Name and element type of every such variable that is no pointer."""
    nodes = tree.captures_beside("(declaration) @declaration", *(word.encode() for word in _SPACES))
    for node in nodes.get("declaration", []):
        words, base = read_specifiers(tree, node)
        if not _SPACES & words:
            continue
        for declarator in node.children_by_field_name("declarator"):
            name = _name(tree, declarator)
            if name:
                yield name, base


def _name(tree: SourceTree, declarator: Node) -> str:
    inner = (
        declarator.child_by_field_name("declarator") if declarator.type == "init_declarator" else declarator
    )
    read = read_declarator(inner)
    plain = read.name is not None and not (read.pointers or read.reference or read.function)
    return tree.text_of(read.name) if plain and read.name is not None else ""
