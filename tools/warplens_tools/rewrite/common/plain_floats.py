# SPDX-License-Identifier: Apache-2.0
"""Which expressions of a device function are float, by what its parameters and variables are declared as."""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.rewrite.common.reading import operator_of

_VECTORS = frozenset({"float2", "float3", "float4"})
_FLOAT_CALLS = frozenset(
    {"sqrtf", "rsqrtf", "fabsf", "expf", "exp2f", "logf", "log2f", "sinf", "cosf", "tanhf", "powf", "fmaf"}
    | {
        "fminf",
        "fmaxf",
        "floorf",
        "ceilf",
        "roundf",
        "__expf",
        "__logf",
        "__powf",
        "__fdividef",
        "__saturatef",
    }
)
_ARITHMETIC = frozenset("+-*/")


class PlainFloats:
    """Reads expressions of one function of the file."""

    def __init__(self, tree: SourceTree, function: Node) -> None:
        self._tree = tree
        #: What each name is declared as; "" where two declarations differ.
        self._types: dict[str, str] = {}
        for node in walk(function):
            if node.type in ("declaration", "parameter_declaration"):
                self._declare(node)

    def _declare(self, node: Node) -> None:
        written = node.child_by_field_name("type")
        kind = self._tree.code_of(written) if written is not None else ""
        for declarator in node.children_by_field_name("declarator"):
            inner = declarator.child_by_field_name("declarator")
            name = inner if declarator.type == "init_declarator" and inner is not None else declarator
            plain = kind
            if name.type == "reference_declarator" and name.named_child_count == 1:
                name = name.named_children[0]
            elif name.type != "identifier":
                # a pointer or an array: none of its own uses is a number
                plain, named = "", [n for n in walk(name) if n.type == "identifier"]
                name = named[0] if named else name
            code = self._tree.code_of(name)
            self._types[code] = plain if self._types.get(code, plain) == plain else ""

    def type(self, node: Node) -> str:
        """ "float" or "int" where the expression is one for sure; "" else."""
        code = self._tree.code_of(node)
        if node.type == "identifier":
            kind = self._types.get(code, "")
            return kind if kind in ("float", "int") else ""
        if node.type == "number_literal":
            return "int" if code.isdigit() else "float" if code[-1] in "fF" and "x" not in code else ""
        if node.type == "field_expression":
            argument = node.child_by_field_name("argument")
            of = self._types.get(self._tree.code_of(argument), "") if argument is not None else ""
            return "float" if of in _VECTORS and "->" not in code else ""
        if node.type == "call_expression":
            called = node.child_by_field_name("function")
            return "float" if called is not None and self._tree.code_of(called) in _FLOAT_CALLS else ""
        if node.type == "parenthesized_expression" and node.named_child_count == 1:
            return self.type(node.named_children[0])
        if node.type == "unary_expression" and operator_of(node) in ("-", "+"):
            return self.type(node.named_children[-1])
        if node.type == "binary_expression" and operator_of(node) in _ARITHMETIC:
            kinds = {self.type(node.named_children[0]), self.type(node.named_children[-1])}
            return "" if "" in kinds else "float" if "float" in kinds else "int"
        return ""
