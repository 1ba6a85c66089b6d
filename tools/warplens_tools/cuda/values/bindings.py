# SPDX-License-Identifier: Apache-2.0
"""What each declared name is bound to, and where: the scopes behind `constants`."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Sequence
from typing import Literal

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import Leaf, SourceTree
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.cuda.values.integer_names import integer_names, integer_of

_AUTO = re.compile(r"\bauto\b")
_DIM3_TYPE = re.compile(
    r"\s*(?:(?:static|const|constexpr|auto)\s+)*(?:dim3|auto)\b(?:\s+(?:const|constexpr)\b)*\s*"
)
_SCOPE_TYPES = frozenset({
    "compound_statement", "declaration_list", "field_declaration_list", "translation_unit",
    "for_statement", "function_definition", "template_declaration", "lambda_expression", "case_statement",
    "if_statement", "enumerator_list", "while_statement", "for_range_loop",
})  # fmt: skip


#: "plain" is an integer variable or an `auto`, "parameter" an integer parameter (of a template too),
#: "object" another by-value parameter.
BindingKind = Literal[
    "const", "constexpr", "plain", "dim3", "pointer", "array", "parameter", "object", "other"
]  # fmt: skip


class Binding(msgspec.Struct, frozen=True):
    """One declaration of a name; `value` is what it is initialised with, None if nothing fixes it."""

    name: str
    #: Offsets in which the name means this.
    start: int
    end: int
    value: str | None
    kind: BindingKind
    #: Offsets of the whole declaration and of the value.
    declaration: tuple[int, int]
    value_at: int
    scope_start: int
    #: It stands inside a function, or is a template parameter of one.
    local: bool


class Scopes:
    """Bindings by name, found by place. A file of thousands of functions repeats its local names."""

    def __init__(self, bindings: list[Binding]) -> None:
        self.by_name: dict[str, list[Binding]] = {}
        for binding in sorted(bindings, key=lambda b: b.start):
            self.by_name.setdefault(binding.name, []).append(binding)
        self._wide = {name: [b for b in found if not b.local] for name, found in self.by_name.items()}
        self._local = {name: [b for b in found if b.local] for name, found in self.by_name.items()}
        self._reach = {name: _furthest_ends(found) for name, found in self._local.items()}

    def visible(self, name: str, at: int) -> list[Binding]:
        """The bindings of `name` whose scope holds offset `at`."""
        found = [b for b in self._wide.get(name, ()) if b.start <= at < b.end]
        local, reach = self._local.get(name, []), self._reach.get(name, [])
        index = bisect.bisect_right(local, at, key=lambda b: b.start) - 1
        while index >= 0 and reach[index] > at:
            if local[index].end > at:
                found.append(local[index])
            index -= 1
        return found


def _furthest_ends(bindings: list[Binding]) -> list[int]:
    """For each binding the furthest end of it and of those before it."""
    return list(itertools.accumulate((b.end for b in bindings), max))


def find_bindings(tree: SourceTree) -> list[Binding]:
    """Every declaration of the text that could give a name a meaning in an expression."""
    return [
        b for leaf in tree.leaves for b in (_in_leaf if leaf.function is None else _in_function)(tree, leaf)
    ]


def _in_function(tree: SourceTree, leaf: Leaf) -> Sequence[Binding]:
    """Those of a function rest on its text alone, and go where it goes."""
    key = ("bindings", tree.text_of(leaf.node), tree.code_of(leaf.node), integer_names(tree.file))
    at = leaf.node.start_byte
    known: tuple[int, list[Binding]] | None = tree.carried(key)
    if known is None:
        found = _in_leaf(tree, leaf)
    elif known[0] == at:
        return known[1]
    else:
        found = [_moved(b, at - known[0]) for b in known[1]]
    tree.carry(key, (at, found))
    return found


def _moved(b: Binding, by: int) -> Binding:
    declared = (b.declaration[0] + by, b.declaration[1] + by)
    places = (declared, b.value_at + by, b.scope_start + by)
    return Binding(b.name, b.start + by, b.end + by, b.value, b.kind, *places, b.local)


def _in_leaf(tree: SourceTree, leaf: Leaf) -> list[Binding]:
    found: list[Binding] = []
    for node in (*tree.nodes("declaration", leaf), *tree.nodes("field", leaf)):
        found += _declared(tree, node)
    for node in tree.nodes("enumerator", leaf):
        found.append(_enumerator(tree, node))
    for node in tree.nodes("parameter", leaf):
        found += _parameter(tree, node)
    return found


def _scope(node: Node) -> Node:
    current = node.parent or node
    while current.type not in _SCOPE_TYPES and current.parent is not None:
        current = current.parent
    return current


def _declared(tree: SourceTree, node: Node) -> list[Binding]:
    declarators = node.children_by_field_name("declarator")
    if not declarators:
        return []
    type_text = tree.code_of(node)[: declarators[0].start_byte - node.start_byte]
    scope = _scope(node)
    kind = _kind(tree, type_text, scope)
    return [b for d in declarators if (b := _declarator(tree, node, d, kind, scope))]


def _kind(tree: SourceTree, type_text: str, scope: Node) -> BindingKind | Literal["auto"]:
    words = set(type_text.split())
    if _DIM3_TYPE.fullmatch(type_text) and "dim3" in words:
        return "dim3"
    if integer_of(tree, type_text, scope) is None and not (
        "auto" in words and integer_type(_AUTO.sub("int", type_text))
    ):
        return "other"
    if "constexpr" in words:
        return "constexpr"
    if "const" in words:
        return "const"
    at_file_scope = scope.type in ("translation_unit", "declaration_list", "field_declaration_list")
    return "other" if at_file_scope else "auto" if "auto" in words else "plain"


def _declarator(
    tree: SourceTree, node: Node, declarator: Node, kind: BindingKind | Literal["auto"], scope: Node
) -> Binding | None:
    name, value = declarator, node.child_by_field_name("default_value")
    if declarator.type == "init_declarator":
        inner = declarator.child_by_field_name("declarator")
        if inner is None:
            return None
        name, value = inner, declarator.child_by_field_name("value")
    if kind == "dim3" and name.type == "function_declarator" and scope.type == "compound_statement":
        # Inside a function `dim3 block(kX, kY)` makes an object; the grammar takes it for a declaration.
        value, name = name.child_by_field_name("parameters"), _inner_name(name) or name
    if name.type not in ("identifier", "field_identifier"):
        plain = _inner_name(name)
        if plain is None:
            return None
        if _is_pointer(name):
            return _binding(tree, plain, scope, node, value, "pointer")
        # A pointer to a function keeps what it is set to: it may be launched.
        held = value if name.type == "function_declarator" else None
        return _binding(
            tree, plain, scope, node, held, "array" if name.type == "array_declarator" else "other"
        )
    if kind == "dim3":
        return _dim3_binding(tree, name, value, scope, node)
    if value is not None and value.type == "initializer_list" and value.named_child_count == 1:
        value = value.named_children[0]
    if kind == "auto" and value is not None and tree.code_of(value).startswith("dim3"):
        return _dim3_binding(tree, name, value, scope, node)
    kind = "plain" if kind == "auto" else kind
    return _binding(tree, name, scope, node, value, kind)


def _dim3_binding(tree: SourceTree, name: Node, value: Node | None, scope: Node, node: Node) -> Binding:
    binding = _binding(tree, name, scope, node, value, "dim3")
    text = "dim3()" if value is None else binding.value or ""
    if value is not None and value.type in ("argument_list", "parameter_list"):
        text = "dim3" + text
    return msgspec.structs.replace(binding, value=text)


def _binding(
    tree: SourceTree, name: Node, scope: Node, node: Node, value: Node | None, kind: BindingKind
) -> Binding:
    return Binding(
        name=tree.text_of(name),
        start=name.start_byte if scope.type != "field_declaration_list" else scope.start_byte,
        end=scope.end_byte,
        value=tree.code_of(value) if value is not None else None,
        kind=kind,
        declaration=(node.start_byte, node.end_byte),
        value_at=value.start_byte if value is not None else name.start_byte,
        scope_start=scope.start_byte,
        local=_is_local(scope),
    )


_FILE_SCOPES = frozenset(
    {"translation_unit", "declaration_list", "field_declaration_list", "enumerator_list"}
)


def _is_local(scope: Node) -> bool:
    if scope.type == "template_declaration":
        return any(child.type == "function_definition" for child in scope.named_children)
    if scope.type == "enumerator_list" or scope.type == "enum_specifier":
        return False
    return scope.type not in _FILE_SCOPES


def _inner_name(node: Node) -> Node | None:
    """The declared name under pointer, reference, array and function declarators."""
    current: Node | None = node
    while current is not None and current.type not in ("identifier", "field_identifier"):
        below = current.child_by_field_name("declarator")
        if below is None:
            below = next(
                (c for c in current.named_children if c.type.endswith(("declarator", "identifier"))), None
            )
        current = below
    return current


def _enumerator(tree: SourceTree, node: Node) -> Binding:
    """An enumerator with its own value; one that counts on from its neighbour has none here."""
    name = node.child_by_field_name("name") or node
    scope = node.parent.parent if node.parent and node.parent.parent else node
    if not (scope.type == "enum_specifier" and _is_scoped(scope)):
        scope = _scope(scope)
    return _binding(tree, name, scope, node, node.child_by_field_name("value"), "constexpr")


def _is_scoped(enum: Node) -> bool:
    return any(c.type in ("class", "struct") for c in enum.children)


def _is_multiplied(tree: SourceTree, node: Node) -> bool:
    """Whether it is the `* b` of `dim3 grid(a * b)` inside a function, which makes an object of no pointer."""
    outer = node
    for kind in ("parameter_declaration", "parameter_list", "function_declarator", "declaration"):
        if outer.parent is None or outer.parent.type != kind:
            return False
        outer = outer.parent
    named = outer.child_by_field_name("type")
    is_object = named is not None and tree.code_of(named) == "dim3"
    return is_object and node.type == "pointer_declarator" and _scope(outer).type == "compound_statement"


def _parameter(tree: SourceTree, node: Node) -> list[Binding]:
    name = _inner_name(node)
    if name is None or _is_multiplied(tree, node):
        return []
    scope = node
    while scope.type not in _PARAMETER_SCOPES and scope.parent is not None:
        scope = scope.parent
    if node.type != "identifier":
        kind: BindingKind = "pointer" if _is_pointer(node) or node.type == "array_declarator" else "other"
    else:
        written = tree.code_of(node.parent or node)
        whole = integer_of(tree, written[: written.rfind(tree.code_of(node))], node)
        kind = "parameter" if whole is not None else "object"
    return [_binding(tree, name, scope, node, None, kind)]


def _is_pointer(declarator: Node) -> bool:
    """Whether it declares one plain pointer: `*p`, not `**p`, `*p[4]` or `(*p)[4]`."""
    inner = declarator.child_by_field_name("declarator")
    one = inner is not None and inner.type in ("identifier", "field_identifier")
    return one and declarator.type == "pointer_declarator"


_PARAMETER_SCOPES = frozenset({
    "function_definition", "template_declaration", "lambda_expression", "declaration", "field_declaration",
    "translation_unit", "compound_statement", "declaration_list", "field_declaration_list",
})  # fmt: skip


def value_node(tree: SourceTree, binding: Binding) -> Node | None:
    """The node of what a declaration initialises its name with: an expression, or the list of a `dim3`'s extents."""
    written = binding.value or ""
    if written.startswith("dim3(") and tree.masked.code.startswith(b"(", binding.value_at):
        written = written.removeprefix("dim3")
    start, end = binding.value_at, binding.value_at + len(written)
    node = tree.root.descendant_for_byte_range(start, end) if written else None
    if node is None or (node.start_byte, node.end_byte) != (start, end):
        return None
    is_list = node.type in ("initializer_list", "argument_list") and binding.kind != "dim3"
    return node.named_children[0] if is_list and node.named_child_count == 1 else node
