# SPDX-License-Identifier: Apache-2.0
"""The arithmetic type of an expression in a kernel, as far as its text fixes it."""

from __future__ import annotations

import re
from typing import Literal

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.syntax.types import integer_type, vector_element
from warplens_tools.cuda.values.bindings import Binding, value_node
from warplens_tools.cuda.values.constants import layouts_of
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
_PARAMETERS = frozenset({"parameter_declaration", "optional_parameter_declaration"})
_DECLARATIONS = _PARAMETERS | {"declaration", "init_declarator", "compound_statement", "translation_unit"}
_MAX_DEPTH = 40


def _plain(written: str) -> str:
    """A declared type without qualifiers, reference and keywords: "Point" of "const Point&"."""
    return " ".join(_OTHER_WORD.findall(written.replace("std::", "")))


def written_type(text: str) -> Arithmetic | None:
    """The arithmetic type of a declared type: "float" also for `float4`, None for what is none."""
    name = _plain(text)
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


def written_before(tree: SourceTree, binding: Binding) -> str:
    """What stands before a name in its declaration, without other names' declarators: specifiers, type, `*`, `&`."""
    start = min(binding.declaration[0], binding.start)
    node = tree.root.descendant_for_byte_range(binding.start, binding.start)
    while node is not None and node.type not in _DECLARATIONS:
        node = node.parent
    if node is not None and node.type in _PARAMETERS:
        start = node.start_byte
    return _before_declarators(tree.masked.code[start : binding.start].decode("ascii"))


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
        base = node.child_by_field_name("argument")
        if base is not None and self.tree.code_of(base) in _BUILTIN:
            return "int"
        written = self._member(node)
        return written_type(written) if written is not None else None

    def _member(self, node: Node) -> str | None:
        """The type as written of a member of a vector type or a struct of the file; None for pointers and arrays."""
        base, field = node.child_by_field_name("argument"), node.child_by_field_name("field")
        whole = self._written(base) if base is not None else None
        if whole is None or field is None:
            return None
        layouts = layouts_of(self.tree)
        found = layouts.member(layouts.plain(whole), self.tree.code_of(field))
        if found is None or found.pointer or layouts.bytes(found.type) != found.size:
            return None
        return layouts.plain(found.type)

    def _written(self, node: Node) -> str | None:
        """The type as written, without qualifiers, of an object: a name, an element, a member, `*p`, `p` in `p->x`."""
        if node.type == "field_expression":
            return self._member(node)
        if node.type in ("subscript_expression", "pointer_expression"):
            is_element = node.type == "subscript_expression"
            inner = node.child_by_field_name("argument")
            pointer = self.pointers.element(node) if is_element else self.pointers.pointer(inner)
            return _plain(pointer.element_type) if pointer is not None else None
        if node.type == "parenthesized_expression" and node.named_child_count == 1:
            return self._written(node.named_children[0])
        binding = self._binding(node)
        if binding is None:
            return None
        if binding.kind in ("pointer", "array") or "*" in written_before(self.tree, binding):
            pointer = self.pointers.pointer(node)
            return _plain(pointer.element_type) if pointer is not None else None
        declared = written_before(self.tree, binding)
        if re.search(r"\bauto\b", declared):
            value = value_node(self.tree, binding) if binding.value else None
            return self._written(value) if value is not None else None
        return _plain(declared)

    def _binding(self, node: Node) -> Binding | None:
        return self.reader.kernel.constants.binding(self.tree.code_of(node), node.start_byte)

    def name(self, node: Node) -> Arithmetic | None:
        """A variable or parameter by its declared type, `auto` by its value."""
        if self.tree.code_of(node) == "warpSize":
            return "int"
        binding = self._binding(node)
        return self.declared(binding) if binding is not None else None

    def declared(self, binding: Binding) -> Arithmetic | None:
        """The type that a declaration gives its name; None for pointers and arrays."""
        if binding.kind in ("pointer", "array"):
            return None
        code = written_before(self.tree, binding)
        if re.search(r"\bauto\b", code):
            return self.type(value_node(self.tree, binding)) if binding.value else None
        return written_type(code) if "*" not in code else None

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
