# SPDX-License-Identifier: Apache-2.0
"""Double precision that was not asked for: double constants in the arithmetic of a kernel of floats.

`x * M_PI` with a float `x` is computed in double and rounded back. (nvcc demotes the simplest cases,
such as `x * 2.0`, by itself; what it really emits is the binary tier's to say.)
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree
from warplens_tools.cuda.values.arithmetic_types import (
    OVERLOADED,
    Arithmetic,
    TypeReader,
    is_double_literal,
    written_type,
)
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.cuda.values.pointers import PointerReader
from warplens_tools.text import Span

#: Constants of <math.h> and CUDA's math_constants.h that are doubles.
_CONSTANT = re.compile(r"M_[A-Z0-9_]+|CUDART_(?!\w+_F\b)[A-Z0-9_]+|DBL_(?:MAX|MIN|EPSILON)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_DOUBLES = frozenset({"double", "double2", "double3", "double4"})
_MAKE_FLOAT = re.compile(r"make_float[1-4]")
_ARITHMETIC = frozenset(
    {"binary_expression", "unary_expression", "parenthesized_expression", "conditional_expression"}
)
_COMPARISONS = frozenset({"<", ">", "<=", ">=", "==", "!="})
_PATTERN = """
(number_literal) @number
(identifier) @name
(call_expression) @call
(cast_expression) @cast
(declaration) @declaration
"""
Kind = Literal["literal", "constant", "macro", "call", "declaration", "cast"]


class DoubleUse(msgspec.Struct, frozen=True):
    """One place that makes a float kernel compute in double."""

    #: "literal" 0.5, "constant" M_PI, "macro" a `#define` that holds a literal, "call" `pow(x, 2)` whose
    #: integer argument selects the double overload; "declaration" and "cast" name double on purpose.
    kind: Kind
    text: str
    span: Span
    #: What computes in float instead; "" where that cannot be said from the text.
    replacement: str = ""
    #: It stands in a loop, beside floats.
    repeated: bool = False


def has_float_data(kernel: Kernel) -> bool:
    """Whether the kernel's data is float: some pointer parameter to float or a float vector, none to double."""
    types = {written_type(p.element_type) for p in kernel.parameters if p.pointer}
    return "float" in types and "double" not in types


def computes_in_float(kernel: Kernel, expanded: KernelTree) -> bool:
    """Whether the kernel has float variables and no double ones, whatever its data are: a fractal in bytes."""
    words = set(_WORD.findall(expanded.tree.code_of(expanded.function.body)))
    types = {written_type(p.element_type if p.pointer else p.type) for p in kernel.parameters}
    templated = any(p.pointer and p.element_type in kernel.template_parameters for p in kernel.parameters)
    return "float" in words and not words & _DOUBLES and "double" not in types and not templated


def double_uses(tree: SourceTree, kernel: Kernel) -> tuple[DoubleUse, ...]:
    """Where a kernel of floats computes in double, in text order; () for any other kernel.

    Arithmetic that also has a declared `double` in it, or whose result goes into one, is on purpose and
    shows only as that declaration or cast.
    """
    expanded = kernel_tree(tree, kernel)
    if expanded is None or not (has_float_data(kernel) or computes_in_float(kernel, expanded)):
        return ()
    reader = _Reader(tree, expanded, kernel)
    captured = expanded.tree.captures(_PATTERN, expanded.function.body)
    found = [u for kind, nodes in captured.items() for node in nodes for u in reader.use(kind, node)]
    by_span = {use.span: use for use in sorted(found, key=lambda u: u.span)}
    return tuple(by_span.values())


class _Reader:
    def __init__(self, tree: SourceTree, expanded: KernelTree, kernel: Kernel) -> None:
        self.file, self.tree = tree, expanded.tree
        forms = FormReader(expanded)
        self.types = TypeReader(forms, PointerReader(kernel, forms))

    def use(self, kind: str, node: Node) -> list[DoubleUse]:
        """The double use that a captured node is, if it is one."""
        code = self.tree.code_of(node)
        if kind == "declaration":
            return self._declaration(node)
        if kind == "cast":
            return (
                [DoubleUse("cast", code, self.tree.span(node))] if self.types.type(node) == "double" else []
            )
        if kind == "call":
            return self._call(node)
        is_double = is_double_literal(code) if kind == "number" else bool(_CONSTANT.fullmatch(code))
        return self._constant(node, kind) if is_double else []

    def _declaration(self, node: Node) -> list[DoubleUse]:
        declared = node.child_by_field_name("type")
        if declared is None or self.tree.code_of(declared) != "double":
            return []
        return [DoubleUse("declaration", self.tree.text_of(node), self.tree.span(node))]

    def _call(self, node: Node) -> list[DoubleUse]:
        """`pow(x, 2)`: no double in sight, but the mixed call is the double overload."""
        function, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or listed is None or self.tree.code_of(function) not in ("pow", "std::pow"):
            return []
        types = [self.types.type(a) for a in listed.named_children]
        if sorted(map(str, types)) != ["float", "int"] or not self._goes_to_float(node):
            return []
        span = self.tree.span(function)
        written = self.file.text.slice(span)
        return [DoubleUse("call", written, span, "powf" if written in ("pow", "std::pow") else "")]

    def _goes_to_float(self, node: Node) -> bool:
        root = self._root(node)
        return self._sink(root) in ("float", "int") and "declared" not in self._leaves(root)

    def _constant(self, node: Node, kind: str) -> list[DoubleUse]:
        root = self._root(node)
        leaves, sink = self._leaves(root), self._sink(root)
        compound = root.parent is not None and self._is_compound(root.parent)
        promotes = "float" in leaves or (("int" in leaves or compound) and sink == "float")
        if not promotes or "declared" in leaves or sink == "double":
            return []
        sure = "unknown" not in leaves and sink is not None
        again = "float" in leaves and _is_repeated(node)
        span = self.tree.span(node)
        written = self.file.text.slice(span)
        if written != self.tree.text_of(node):
            whole = re.fullmatch(r"[A-Za-z_]\w*", written) is not None
            return [DoubleUse("macro", written, span, f"float({written})" if whole and sure else "", again)]
        replacement = f"{written}f" if kind == "number" else f"float({written})"
        named: Kind = "literal" if kind == "number" else "constant"
        return [DoubleUse(named, written, span, replacement if sure else "", again)]

    def _root(self, node: Node) -> Node:
        """The largest arithmetic expression around `node`; a comparison ends it."""
        while node.parent is not None:
            parent = node.parent
            if parent.type == "argument_list" and parent.parent is not None and self._is_math(parent.parent):
                node = parent.parent
            elif parent.type not in _ARITHMETIC or self._is_condition(parent, node):
                return node
            else:
                node = parent
                if self._is_comparison(node):
                    return node
        return node

    def _is_condition(self, parent: Node, node: Node) -> bool:
        condition = (
            parent.child_by_field_name("condition") if parent.type == "conditional_expression" else None
        )
        return condition is not None and condition.id == node.id

    def _is_comparison(self, node: Node) -> bool:
        operator = node.child_by_field_name("operator") if node.type == "binary_expression" else None
        return operator is not None and operator.type in _COMPARISONS

    def _is_math(self, call: Node) -> bool:
        function = call.child_by_field_name("function")
        return function is not None and self.tree.code_of(function).removeprefix("std::") in OVERLOADED

    def _leaves(self, root: Node) -> set[str]:
        """Kinds of operand under `root`: "float", "int", "constant", "declared" (double), "unknown"."""
        kinds: set[str] = set()
        stack = [root]
        while stack:
            node = stack.pop()
            if node.type in _ARITHMETIC or (node.type == "call_expression" and self._is_math(node)):
                stack += _operands(node)
                continue
            code = self.tree.code_of(node)
            if (node.type == "number_literal" and is_double_literal(code)) or _CONSTANT.fullmatch(code):
                kinds.add("constant")
                continue
            found = self.types.type(node)
            kinds.add("declared" if found == "double" else found or "unknown")
        return kinds

    def _sink(self, root: Node) -> Arithmetic | None:
        """The type that the value of `root` is turned into; "int" for a comparison's truth."""
        parent = root.parent
        if self._is_comparison(root):
            return "int"
        if parent is None:
            return None
        if parent.type == "assignment_expression":
            return self.types.type(parent.child_by_field_name("left"))
        if parent.type == "cast_expression" or parent.type == "argument_list":
            target = parent if parent.type == "cast_expression" else parent.parent
            return self._taken_by(target) if target is not None else None
        if parent.type == "init_declarator" and parent.parent is not None:
            declared = parent.parent.child_by_field_name("type")
            return written_type(self.tree.code_of(declared)) if declared is not None else None
        return None

    def _taken_by(self, target: Node) -> Arithmetic | None:
        """The type that a cast or a call turns its operand into."""
        if self._is_cast(target):
            return self.types.type(target)
        function = target.child_by_field_name("function")
        name = self.tree.code_of(function) if function is not None else ""
        if _MAKE_FLOAT.fullmatch(name):
            return "float"
        is_float_function = name.endswith("f") and name.removesuffix("f") in OVERLOADED
        return "float" if is_float_function else None

    def _is_cast(self, node: Node) -> bool:
        function = node.child_by_field_name("function")
        name = self.tree.code_of(function) if function is not None else ""
        return (
            node.type == "cast_expression" or name.startswith("static_cast") or written_type(name) is not None
        )

    def _is_compound(self, node: Node) -> bool:
        operator = node.child_by_field_name("operator") if node.type == "assignment_expression" else None
        return operator is not None and operator.type != "="


def _is_repeated(node: Node) -> bool:
    """Whether a loop of the kernel is around a node."""
    outer = node.parent
    while outer is not None and outer.type != "function_definition":
        if outer.type in LOOPS:
            return True
        outer = outer.parent
    return False


def _operands(node: Node) -> list[Node]:
    """The operands that decide an expression's arithmetic: not the condition of `?:`, not a callee."""
    if node.type == "conditional_expression":
        fields = ("consequence", "alternative")
        return [n for f in fields if (n := node.child_by_field_name(f)) is not None]
    if node.type == "call_expression":
        listed = node.child_by_field_name("arguments")
        return list(listed.named_children) if listed is not None else []
    return list(node.named_children)
