# SPDX-License-Identifier: Apache-2.0
"""What a kernel does with a result, where that is one plain store that may go in vectors."""

from __future__ import annotations

import msgspec

from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.idioms.common.vector_places import Rests, addressed
from warplens_tools.rewrite.common.operand_tiles import Product
from warplens_tools.rewrite.common.reading import View, field, operator_of


class Stored(msgspec.Struct, frozen=True):
    """One store of a result: its address, what is stored, and the element's type and bytes."""

    address: str
    value: str
    type: str
    bytes: int


def stored(view: View, product: Product, column: str, rests: Rests) -> Stored | None:
    """The store of a product's result, whose neighbours along `column` lie side by side; None for any other tail."""
    if len(product.tail) != 1 or product.tail[0].type != "expression_statement":
        return None
    given = product.tail[0].named_children[0]
    if given.type != "assignment_expression" or operator_of(given) != "=":
        return None
    left, right = field(given, "left"), field(given, "right")
    if left.type != "subscript_expression" or right.type == "assignment_expression":
        return None
    place, element = addressed(view, left, (column,), rests), view.element(left)
    size = type_bytes(view.concrete(element)) if element else None
    plain = view.is_plain_enough(left) and view.is_plain_enough(right) and view.space(left) == "global"
    if not place.along or size is None or not plain:
        return None
    return Stored(place.address, view.written(right), element, size)
