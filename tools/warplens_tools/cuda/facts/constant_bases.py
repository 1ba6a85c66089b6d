# SPDX-License-Identifier: Apache-2.0
"""Powers of the constants 2 and 10, for which there are exponential functions of their own: `powf(2.0f, x)`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.own_names import is_own
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.arithmetic_types import Arithmetic, TypeReader, wider
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import KernelTree
from warplens_tools.cuda.values.pointers import PointerReader

_CALLEE = re.compile(r"(?:::|std::)?(powf?)")
_BASE = re.compile(r"(2|10)(?:\.0*)?[fF]?")


class BasePower(msgspec.Struct, frozen=True):
    """One call of the general power with the base 2 or 10."""

    call: Node
    base: Node
    exponent: Node
    #: What computes the same of the exponent alone: "exp2f".
    function: str
    #: Whether the exponent is converted by the call, and must be where the function's overloads would choose by it.
    converts: bool


def base_powers(expanded: KernelTree, kernel: Kernel) -> Iterator[BasePower]:
    """Those of a kernel's own body, in text order; nodes are of the expanded tree.

    Left out: exponents of numbers alone, which the compiler folds, and calls whose overload the text does not tell.
    """
    tree, body = expanded.tree, expanded.function.body
    if "pow" not in tree.code_of(body):
        return
    forms = FormReader(expanded)
    types = TypeReader(forms, PointerReader(kernel, forms))
    for call in tree.captures("(call_expression) @call", body).get("call", []):
        found = _base_power(expanded, types, call)
        if found is not None:
            yield found


def _base_power(expanded: KernelTree, types: TypeReader, call: Node) -> BasePower | None:
    tree = expanded.tree
    function, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
    callee = _CALLEE.fullmatch(tree.code_of(function)) if function is not None else None
    given = [n for n in listed.named_children if n.type != "comment"] if listed is not None else []
    if callee is None or len(given) != 2 or is_own(expanded, callee[1], call):
        return None
    base, exponent = given
    number = _number(expanded, base)
    if not number or not any(n.type == "identifier" for n in walk(exponent)):
        return None
    kind = types.type(exponent)
    computed = "float" if callee[1] == "powf" else _overload(types.type(base), kind)
    if computed is None:
        return None
    name = f"exp{number}" + ("f" if computed == "float" else "")
    if is_own(expanded, name, call):
        return None
    return BasePower(call, base, exponent, name, computed == "double" and kind != "double")


def _number(expanded: KernelTree, base: Node) -> str:
    """ "2" or "10", written as a literal or named as an integer constant; "" for any other base."""
    code = expanded.tree.code_of(base)
    literal = _BASE.fullmatch(code)
    if literal is not None:
        return literal[1]
    value = expanded.constants.value(code, base.start_byte)
    return str(value) if value in (2, 10) else ""


def _overload(base: Arithmetic | None, exponent: Arithmetic | None) -> Literal["float", "double"] | None:
    """Where `pow` computes: C++ has an overload of two floats; all other pairs are converted to double."""
    kind = wider(base, exponent)
    if kind is None:
        return None
    return "float" if base == exponent == "float" else "double"
