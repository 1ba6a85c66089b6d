# SPDX-License-Identifier: Apache-2.0
"""Arrays that a kernel's body or the file declares, and variables in constant memory: space, type, extents, values."""

from __future__ import annotations

from typing import Literal

from tree_sitter import Node

from warplens_tools.cuda.model import ArrayDeclaration
from warplens_tools.cuda.syntax.declarators import read_declarator, read_specifiers
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.bindings import Binding
from warplens_tools.cuda.values.constants import Constants
from warplens_tools.cuda.values.writes import is_set_once


def read_arrays(tree: SourceTree, constants: Constants, body: Node) -> tuple[ArrayDeclaration, ...]:
    """The shared and local arrays declared in a body, in order."""
    key = ("no arrays", tree.words(body.start_byte, body.end_byte))
    if tree.carried(key):
        return ()
    found: list[ArrayDeclaration] = []
    for node in tree.nodes_in("declaration", body):
        found += _declared_arrays(tree, constants, node)
    if not found:
        tree.carry(key, True)
    return tuple(found)


def _declared_arrays(tree: SourceTree, constants: Constants, node: Node) -> list[ArrayDeclaration]:
    if "[" not in tree.code_of(node):
        return []
    words, base = read_specifiers(tree, node)
    if words & {"static", "__constant__", "__device__"} and "__shared__" not in words:
        return []
    space: Literal["shared", "local"] = "shared" if "__shared__" in words else "local"
    dynamic = space == "shared" and "extern" in words
    arrays = []
    for declarator in node.children_by_field_name("declarator"):
        array = _array(tree, constants, node, declarator, base, space, dynamic)
        if array is not None:
            arrays.append(array)
    return arrays


def file_array(constants: Constants, name: str, at: int) -> ArrayDeclaration | None:
    """The `__constant__` or `__device__` array at file scope that a name means at `at`, in a kernel's own tree or
    else in the file around it."""
    binding, tree = constants.binding(name, at), constants.tree
    if binding is None:
        return file_array(constants.outer[0], name, constants.outer[1]) if constants.outer else None
    node = tree.root.descendant_for_byte_range(*binding.declaration) if binding.kind == "array" else None
    words, base = read_specifiers(tree, node) if node is not None else (frozenset(), "")
    if node is None or not words & {"__constant__", "__device__"}:
        return None
    space: _ArraySpace = "constant" if "__constant__" in words else "global"
    declarators = node.children_by_field_name("declarator")
    found = (_array(tree, constants, node, d, base, space, False) for d in declarators)
    return next((a for a in found if a is not None and a.name == name), None)


def constant_memory_type(tree: SourceTree, binding: Binding) -> str:
    """The type of one variable that the host gives every launch, `int` of `__constant__ int width;`; "" of others."""
    low, high = binding.declaration
    declared = tree.masked.code[low:high].decode("ascii")
    alone = binding.kind == "other" and declared[binding.start - low :].strip(" ;") == binding.name
    words = [
        w for w in declared[: binding.start - low].split() if w not in ("static", "__device__", "struct")
    ]
    return " ".join(words[1:]) if alone and words[:1] == ["__constant__"] else ""


def is_given_whole(tree: SourceTree, binding: Binding) -> bool:
    """Whether a structure has its members from the launch, or from the host, and keeps them."""
    kept = binding.kind == "object" and is_set_once(tree, binding)
    return kept or constant_memory_type(tree, binding) != ""


_ArraySpace = Literal["shared", "local", "constant", "global"]


def _array(
    tree: SourceTree,
    constants: Constants,
    node: Node,
    declarator: Node,
    base: str,
    space: _ArraySpace,
    dynamic: bool,
) -> ArrayDeclaration | None:
    initial = declarator.child_by_field_name("value") if declarator.type == "init_declarator" else None
    target = declarator.child_by_field_name("declarator") if initial is not None else declarator
    read = read_declarator(target)
    if read.name is None or not read.extents or read.reference or read.function or read.pointer_to_array:
        return None
    written = tuple(tree.text_of(e) if e is not None else "" for e in read.extents)
    sizes = tuple(_extent(tree, constants, e, initial) for e in read.extents)
    if dynamic and read.extents == (None,):
        written, sizes = (), ()
    return ArrayDeclaration(
        name=tree.text_of(read.name),
        element_type=base + "*" * read.pointers,
        space=space,
        extents=written,
        sizes=sizes,
        span=tree.span(node),
        extent_spans=tuple(tree.span(e) for e in read.extents if e is not None),
        dynamic=dynamic,
    )


def _extent(tree: SourceTree, constants: Constants, extent: Node | None, initial: Node | None) -> int | None:
    if extent is not None:
        return constants.value(tree.code_of(extent), extent.start_byte)
    return initial.named_child_count if initial is not None and initial.type == "initializer_list" else None
