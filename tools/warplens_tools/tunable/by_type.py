# SPDX-License-Identifier: Apache-2.0
"""Code that goes by the type a template is made for, which an edit adds: `sizeof(T) == 2`, `is_same`, an overload for
`double`, the bits of a `T` as those of an `unsigned`.

A run compares the instantiations that it launches. Others may take another side, which nobody has seen.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.callees import own_name
from warplens_tools.cuda.syntax.functions import Function
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.tunable.conditions import RELATIONS, DeviceCode
from warplens_tools.tunable.source import File

_NAME = re.compile(r"[A-Za-z_]\w*")
_TRAIT = re.compile(r"\bis_\w+\s*<")
#: Words of a question that is asked of types alone.
_OF_TYPES = frozenset({"sizeof", "alignof", "constexpr", "static_cast"})
_BITS = re.compile(
    r"(?:reinterpret_cast|__builtin_bit_cast|(?:std::|cuda::std::)?bit_cast)\s*<([^()]*)>\s*\Z"
)


def why_by_type(before: File, after: File, kernel: str) -> str:
    """What an edited kernel, or a function that it calls, does by the type that it is made for and the original does
    not, in words; "" for nothing."""
    old, new = (DeviceCode(file, kernel) for file in (before, after))
    more = Counter(_questions(new)) - Counter(_questions(old))
    if more:
        return next(iter(more))
    many = [Counter(own_name(code.tree, one) for one in code.functions) for code in (old, new)]
    several = next((name for name, now in many[1].items() if now > max(1, many[0][name])), "")
    return f"{several}, which is another function for other types" if several else ""


def _questions(code: DeviceCode) -> Iterator[str]:
    for function in code.functions:
        types = type_parameters(code, function)
        if types:
            yield from _of_types(code, function, types)
            yield from _of_bits(code, function, types)


def type_parameters(code: DeviceCode, function: Function) -> frozenset[str]:
    """The names of the types that a function is a template of."""
    outer = function.body.parent
    while outer is not None and outer.type != "template_declaration":
        outer = outer.parent
    listed = outer.child_by_field_name("parameters") if outer is not None else None
    kinds = ("type_parameter_declaration", "optional_type_parameter_declaration")
    found = (one for one in listed.named_children if one.type in kinds) if listed is not None else ()
    # behind `typename` or `class`, where it has a name
    return frozenset(name for one in found for name in _NAME.findall(code.tree.code_of(one))[1:2])


def _of_types(code: DeviceCode, function: Function, types: frozenset[str]) -> Iterator[str]:
    """Comparisons of types alone, and traits of them."""
    for node in walk(function.body):
        if node.type == "binary_expression":
            operator = node.child_by_field_name("operator")
            if operator is None or operator.type not in RELATIONS:
                continue
            text = " ".join(code.tree.code_of(node).split())
            names = set(_NAME.findall(text)) - _OF_TYPES
            if names & types and names <= types:
                yield text
        elif node.type in ("if_statement", "conditional_expression"):
            asked = node.child_by_field_name("condition")
            said = " ".join(code.tree.code_of(asked).split()) if asked is not None else ""
            if _TRAIT.search(said) and types & set(_NAME.findall(said)):
                yield said


def _of_bits(code: DeviceCode, function: Function, types: frozenset[str]) -> Iterator[str]:
    """Values of such a type that are taken for those of a type by name."""
    values = {
        name
        for root in (function.declarator, function.body)
        for node in walk(root)
        if node.type in ("declaration", "parameter_declaration")
        and types & set(_NAME.findall(code.tree.code_of(node.child_by_field_name("type") or node)))
        for name in _NAME.findall(code.tree.code_of(node))
    } - types
    for node in walk(function.body):
        kind, given = _cast(code, node)
        named = set(_NAME.findall(code.tree.code_of(given))) if given is not None else set()
        if kind and not types & set(_NAME.findall(kind)) and values & named:
            yield " ".join(code.tree.code_of(node).split())


def _cast(code: DeviceCode, node: Node) -> tuple[str, Node | None]:
    """The type that bits are taken for, and what they are of."""
    if node.type == "call_expression":
        function = node.child_by_field_name("function")
        found = _BITS.match(code.tree.code_of(function)) if function is not None else None
        return (found[1], node.child_by_field_name("arguments")) if found is not None else ("", None)
    if node.type == "cast_expression":
        kind = node.child_by_field_name("type")
        text = code.tree.code_of(kind) if kind is not None else ""
        return (text, node.child_by_field_name("value")) if "*" in text else ("", None)
    return "", None
