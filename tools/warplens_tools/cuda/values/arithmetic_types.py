# SPDX-License-Identifier: Apache-2.0
"""The arithmetic type of an expression in a kernel, as far as its text fixes it."""

from __future__ import annotations

import re
from typing import Literal

from tree_sitter import Node

from warplens_tools.cuda.syntax.types import integer_type, vector_element
from warplens_tools.cuda.values.bindings import Binding, value_node
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.pointers import PointerReader

Arithmetic = Literal["float", "double", "int"]

#: Functions of <math.h> that C++ overloads for float; a `double` or integer argument selects double.
OVERLOADED = frozenset({
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "cos", "cosh", "cospi",
    "erf", "erfc", "exp", "exp2", "exp10", "expm1", "fabs", "fdim", "floor", "fma", "fmax", "fmin", "fmod",
    "hypot", "lgamma", "log", "log10", "log1p", "log2", "max", "min", "nearbyint", "pow", "remainder", "rint",
    "round", "rsqrt", "sin", "sinh", "sinpi", "sqrt", "tan", "tanh", "tgamma", "trunc",
})  # fmt: skip
_LITERAL = re.compile(r"[-+]?(?:\d[\d']*\.?[\d']*|\.\d[\d']*)(?:[eE][-+]?\d+)?(?P<suffix>[fFlL]?)")
_OTHER_WORD = re.compile(r"\b(?!const|volatile|constexpr|static|register|restrict|__\w+)[A-Za-z_]\w*")
_COMPARISONS = frozenset({"<", ">", "<=", ">=", "==", "!=", "&&", "||"})
_BUILTIN = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize"})
_MAX_DEPTH = 40


def written_type(text: str) -> Arithmetic | None:
    """The arithmetic type of a declared type: "float" also for `float4`, None for what is none."""
    name = " ".join(_OTHER_WORD.findall(text.replace("std::", "")))
    vector = vector_element(name)
    element = vector[0] if vector is not None else name
    if element in ("float", "double"):
        return "float" if element == "float" else "double"
    return "int" if vector is not None or integer_type(name) is not None else None


def is_double_literal(text: str) -> bool:
    """Whether a number is a `double`: a point or an exponent, and no suffix."""
    found = _LITERAL.fullmatch(text)
    has_fraction = "." in text or (not text.lower().startswith("0x") and "e" in text.lower())
    return found is not None and has_fraction and not found["suffix"]


def _before_declarators(code: str) -> str:
    """ "float" of "float a = 0, ": what stands before a later declarator of the same declaration."""
    first = re.split(r"[,=({\[]", code, maxsplit=1)[0]
    return first if first == code else first.rstrip().rpartition(" ")[0]


class TypeReader:
    """Works out arithmetic types in one kernel."""

    def __init__(self, reader: FormReader, pointers: PointerReader) -> None:
        self.reader, self.pointers, self.tree = reader, pointers, reader.tree
        self._depth = 0

    def type(self, node: Node | None) -> Arithmetic | None:
        """The type of an expression; None where its text does not fix it."""
        if node is None or self._depth > _MAX_DEPTH:
            return None
        self._depth += 1
        try:
            read = _TYPES.get(node.type)
            return read(self, node) if read else None
        finally:
            self._depth -= 1

    def literal(self, node: Node) -> Arithmetic | None:
        """1, 1.0, 1.0f"""
        text = self.tree.code_of(node)
        if is_double_literal(text):
            return "double"
        is_float = text[-1:] in "fF" and not text.lower().startswith("0x")
        return "float" if is_float else "int"

    def inside(self, node: Node) -> Arithmetic | None:
        """(e), -e, e++"""
        inner = node.child_by_field_name("argument")
        return self.type(inner or (node.named_children[0] if node.named_children else None))

    def binary(self, node: Node) -> Arithmetic | None:
        """a op b"""
        operator = node.child_by_field_name("operator")
        if operator is not None and operator.type in _COMPARISONS:
            return "int"
        return wider(
            self.type(node.child_by_field_name("left")), self.type(node.child_by_field_name("right"))
        )

    def conditional(self, node: Node) -> Arithmetic | None:
        """c ? a : b"""
        yes, no = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
        return wider(self.type(yes), self.type(no))

    def cast(self, node: Node) -> Arithmetic | None:
        """(float)e"""
        written = node.child_by_field_name("type")
        return written_type(self.tree.code_of(written)) if written is not None else None

    def element(self, node: Node) -> Arithmetic | None:
        """a[i], *p"""
        if node.type == "subscript_expression":
            pointer = self.pointers.element(node)
        else:
            pointer = self.pointers.pointer(node.child_by_field_name("argument"))
        return written_type(pointer.element_type) if pointer is not None else None

    def member(self, node: Node) -> Arithmetic | None:
        """threadIdx.x, and .x of a vector type"""
        base, field = node.child_by_field_name("argument"), node.child_by_field_name("field")
        if base is None or field is None:
            return None
        if self.tree.code_of(base) in _BUILTIN:
            return "int"
        return self.type(base) if self.tree.code_of(field) in "xyzw" else None

    def name(self, node: Node) -> Arithmetic | None:
        """A variable or parameter by its declared type, `auto` by its value."""
        name = self.tree.code_of(node)
        if name == "warpSize":
            return "int"
        binding = self.reader.kernel.constants.binding(name, node.start_byte)
        return self.declared(binding) if binding is not None else None

    def declared(self, binding: Binding) -> Arithmetic | None:
        """The type that a declaration gives its name; None for pointers and arrays."""
        if binding.kind in ("pointer", "array"):
            return None
        start = binding.declaration[0]
        code = _before_declarators(self.tree.masked.code[start : binding.start].decode("ascii"))
        if binding.kind in ("parameter", "object"):
            node = self.tree.root.descendant_for_byte_range(binding.start, binding.start)
            parent = node.parent if node is not None else None
            code = self.tree.code_of(parent).rsplit(binding.name, 1)[0] if parent is not None else ""
        if re.search(r"\bauto\b", code):
            return self.type(value_node(self.tree, binding)) if binding.value else None
        return written_type(code.split("=")[0].split(",")[0]) if "*" not in code.split(",")[0] else None

    def call(self, node: Node) -> Arithmetic | None:
        """Casts, math functions, intrinsics, functions of the file."""
        function, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or listed is None:
            return None
        name = self.tree.code_of(function).removeprefix("::").removeprefix("std::")
        cast = re.fullmatch(r"static_cast\s*<(.*)>", name, re.DOTALL)
        if cast or written_type(name):
            return written_type(cast[1] if cast else name)
        if name in OVERLOADED:
            return self._overloaded(name, listed.named_children)
        if name.removesuffix("f") in OVERLOADED or re.fullmatch(r"__f\w+|__\w+f", name):
            return "float"
        return self._returned(name)

    def _overloaded(self, name: str, arguments: list[Node]) -> Arithmetic | None:
        types = [self.type(a) for a in arguments]
        if None in types or not types:
            return None
        if name in ("min", "max", "abs") and set(types) == {"int"}:
            return "int"
        return (
            "float"
            if set(types) == {"float"} or (name in ("min", "max") and "double" not in types)
            else "double"
        )

    def _returned(self, name: str) -> Arithmetic | None:
        """What the one definition of a function in this file returns."""
        tree = self.tree.file
        found = tree.remembered("returned types", lambda: _returned_types(tree.masked.source)).get(
            name, set()
        )
        return next(iter(found)) if len(found) == 1 else None


_RETURNS = re.compile(r"\b(float|double|int)\s+([A-Za-z_]\w*)\s*\([^(){};]*\)\s*\{")


def _returned_types(code: str) -> dict[str, set[Arithmetic]]:
    found: dict[str, set[Arithmetic]] = {}
    for word, name in _RETURNS.findall(code):
        returned = written_type(word)
        if returned is not None:
            found.setdefault(name, set()).add(returned)
    return found


def wider(a: Arithmetic | None, b: Arithmetic | None) -> Arithmetic | None:
    """The type that C's usual conversions give two operands."""
    if a is None or b is None:
        return None
    return "double" if "double" in (a, b) else "float" if "float" in (a, b) else "int"


_TYPES = {
    "number_literal": TypeReader.literal,
    "parenthesized_expression": TypeReader.inside,
    "unary_expression": TypeReader.inside,
    "update_expression": TypeReader.inside,
    "binary_expression": TypeReader.binary,
    "conditional_expression": TypeReader.conditional,
    "cast_expression": TypeReader.cast,
    "subscript_expression": TypeReader.element,
    "pointer_expression": TypeReader.element,
    "field_expression": TypeReader.member,
    "identifier": TypeReader.name,
    "call_expression": TypeReader.call,
}
