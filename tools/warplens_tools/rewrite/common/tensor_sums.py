# SPDX-License-Identifier: Apache-2.0
"""What tensor cores multiply and add up: types of operands and sums, and the loops that do just that."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.rewrite.base import REORDERED, Refused
from warplens_tools.rewrite.common.declared import declared_in
from warplens_tools.rewrite.common.operand_tiles import Product
from warplens_tools.rewrite.common.reading import View, field, operator_of, unwrapped

#: Types whose products tensor cores add up in float, as the C++ interface of CUDA names them.
_HALVES = frozenset({"half", "__half", "__nv_bfloat16", "nv_bfloat16"})
#: Types of one byte, as the C++ interface names them; products are added up in `int`, and wrap around alike.
_BYTES = {
    "signed char": "signed char",
    "char": "signed char",
    "int8_t": "signed char",
    "unsigned char": "unsigned char",
    "uint8_t": "unsigned char",
}
_TO_FLOAT = re.compile(r"__half2float|__bfloat162float|float|static_cast\s*<\s*float\s*>")
#: The names of the type that products of bytes are added up in.
_INTS = frozenset({"int", "int32_t"})
_TO_INT = re.compile(r"int(?:32_t)?|static_cast\s*<\s*int(?:32_t)?\s*>")
_FUSED = re.compile(r"(?:std::)?fmaf?|__fmaf_rn|__hfma")
_ADDED, _MULTIPLIED = re.compile(r"__hadd(?:_rn)?"), re.compile(r"__hmul(?:_rn)?")
_ZERO = re.compile(r"(?:(?:__float2half(?:_rn)?|__float2bfloat16(?:_rn)?|\w+)\()?0*\.?0*[fF]?\)?")


class Sums(msgspec.Struct, frozen=True):
    """How a product's sums are kept on tensor cores."""

    #: The type of a sum there, and that of an operand's matrix.
    type: str
    operand: str
    #: Elements of an operand that are loaded at once.
    wide: int
    #: The type of the user's sum, and the call that makes one; "" where it is the same.
    own: str
    back: str = ""
    forth: str = ""

    @property
    def zero(self) -> str:
        """What a sum begins at."""
        return "0" if self.type == "int" else "0.0f"

    def declared(self, name: str, begun: str, staged: str) -> str:
        """The user's variable of a sum that was added up on tensor cores, from what it began at."""
        if not _ZERO.fullmatch(begun.replace(" ", "")):
            staged = f"{self.forth}({begun}) + {staged}"
        value = f"{self.back}({staged})" if self.back else staged
        return f"{self.own} {name} = {value};"


_KEPT = "sums are kept in float where they were rounded to two bytes at every step"


def caveat_of(sums: Sums) -> str:
    """How results may change that are added up on tensor cores; "" where they stay bit for bit the same."""
    if sums.type == "int":
        return ""
    return f"{_KEPT}; {REORDERED}" if sums.back else REORDERED


def read_sums(view: View, product: Product) -> Sums:
    """What a product's operands and sums are.

    Raises:
        Refused: its operands are of other types, or more is done with them than to add up products.
    """
    changed = product.states
    if len(product.outputs.axes) != 2 or product.kept:
        raise Refused("its outputs are no plain matrix")
    types = {o.element_type for o in product.operands}
    axes = {o.axis for o in product.operands}
    if len(changed) != 1 or changed[0].declared.stars:
        raise Refused("it does not add up in one number")
    if len(product.operands) != 2 or len(types) != 1 or None in axes or len(axes) != 2:
        raise Refused("it does not multiply two matrices of one type")
    written = types.pop()
    sums = _sums(view, written, view.concrete(written), " ".join(changed[0].declared.type.split()))
    if not product.zero_is_neutral or not _Reader(view, product, sums).adds_products():
        raise Refused("it does more than to add up products of its operands")
    return sums


def _sums(view: View, written: str, operand: str, sum_type: str) -> Sums:
    words = [w for w in sum_type.split() if w != "register"]
    own = words[-1] if words else ""
    if operand in _BYTES:
        if len(words) != 1 or own not in _INTS:
            raise Refused("it does not add up in one int")
        return Sums("int", _BYTES[operand], 16, own)
    if operand not in _HALVES:
        raise Refused("its operands are no half and no bfloat16")
    if own == "float":
        return Sums("float", written, 8, "float")
    if view.concrete(own) != operand:
        raise Refused("it does not add up in one float")
    name = "half" if "half" in operand else "bfloat16"
    forth = "__half2float" if name == "half" else "__bfloat162float"
    return Sums("float", written, 8, own, f"__float2{name}", forth)


class _Reader:
    """Whether a loop's body adds up products of its two operands, and does nothing else."""

    def __init__(self, view: View, product: Product, sums: Sums) -> None:
        self.view, self.product, self.sums = view, product, sums
        self.state = product.states[0].declared.name
        self.given: dict[str, Node] = {}
        #: Products of half are exact in float only where it is float that is multiplied.
        self.plain = sums.type == "int" or bool(sums.back)

    def adds_products(self) -> bool:
        """Whether it is `sum += a * b`, in any of its spellings."""
        for node in self.product.body[:-1]:
            if node.type != "declaration":
                return False
            self.given |= {d.name: d.value for d in declared_in(self.view, node) if d.value is not None}
        last = self.product.body[-1]
        inner = last.named_children[0] if last.type == "expression_statement" else last
        factors = self._added(inner) if inner.type == "assignment_expression" else []
        found = {self._operand(f, converted=self.plain) for f in factors}
        return len(factors) == 2 and None not in found and len(found) == 2

    def _added(self, node: Node) -> list[Node]:
        """The factors of what an assignment adds to the sum."""
        right = unwrapped(field(node, "right"))
        if self._is_sum(field(node, "left")) and operator_of(node) == "+=":
            return self._factors(right)
        if not self._is_sum(field(node, "left")) or operator_of(node) != "=":
            return []
        if right.type == "binary_expression" and operator_of(right) == "+":
            return self._beside([field(right, name) for name in ("left", "right")])
        name, given = self._call(right)
        if _ADDED.fullmatch(name) and len(given) == 2:
            return self._beside(given)
        return given[:2] if _FUSED.fullmatch(name) and len(given) == 3 and self._is_sum(given[2]) else []

    def _beside(self, sides: list[Node]) -> list[Node]:
        others = [n for n in sides if not self._is_sum(n)]
        return self._factors(others[0]) if len(others) == 1 else []

    def _factors(self, node: Node) -> list[Node]:
        node = unwrapped(node)
        if node.type == "binary_expression" and operator_of(node) == "*":
            return [field(node, "left"), field(node, "right")]
        name, given = self._call(node)
        return given if _MULTIPLIED.fullmatch(name) and len(given) == 2 and self.plain else []

    def _call(self, node: Node) -> tuple[str, list[Node]]:
        if node.type != "call_expression":
            return "", []
        return self.view.code(field(node, "function")), field(node, "arguments").named_children

    def _is_sum(self, node: Node) -> bool:
        return self.view.code(unwrapped(node)) == self.state

    def _operand(self, node: Node, *, converted: bool) -> int | None:
        """Which operand an expression is, made what is multiplied; None for another."""
        node, view = unwrapped(node), self.view
        for number, operand in enumerate(self.product.operands):
            if converted and any(p.id == node.id for p in operand.places):
                return number
        if node.type == "identifier" and view.code(node) in self.given:
            return self._operand(self.given[view.code(node)], converted=converted)
        to = self.sums.type
        names = _INTS if to == "int" else {to}
        if node.type == "cast_expression" and view.code(field(node, "type")) in names and not self.sums.back:
            return self._operand(field(node, "value"), converted=True)
        name, given = self._call(node)
        makes = (_TO_INT if to == "int" else _TO_FLOAT).fullmatch(name) and not self.sums.back
        return self._operand(given[0], converted=True) if makes and len(given) == 1 else None
