# SPDX-License-Identifier: Apache-2.0
"""Kernels that walk others for each item, and work out each pair by a loop over the features of both."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import Declared, declared_in
from warplens_tools.rewrite.common.loop_header import header_of
from warplens_tools.rewrite.common.operand_tiles import Product, read_product
from warplens_tools.rewrite.common.outputs import Axis, Outputs
from warplens_tools.rewrite.common.reading import View, assigned, field, operator_of, statements, stores

_LEAVES = frozenset({"break_statement", "return_statement", "goto_statement"})


class ItemPairs(msgspec.Struct, frozen=True):
    """A kernel that walks others for each item."""

    item: Axis
    other: Axis
    #: The loop over others: its type, first value and condition.
    type: str
    first: str
    condition: Node
    #: What lives through it, and what is done behind it.
    kept: tuple[Declared, ...]
    after: tuple[Node, ...]
    #: What is done for each pair.
    product: Product


def stores_pairs(view: View, pairs: ItemPairs) -> bool:
    """Whether something is stored for each pair."""
    return any(stores(view, n) for n in pairs.product.tail)


def read_item_pairs(view: View, outputs: Outputs) -> ItemPairs:
    """The two loops.

    Raises:
        Refused: the kernel is of another shape.
    """
    if len(outputs.axes) != 1 or outputs.early or not outputs.axes[0].limit or not outputs.axes[0].letter:
        raise Refused("no items are numbered along one axis")
    loop, after = outputs.work[0], outputs.work[1:]
    if loop.type != "for_statement" or any(n.type == "return_statement" for w in after for n in walk(w)):
        raise Refused("the work is no loop over others")
    variable, kind, first = header_of(view, outputs, loop)
    condition, body = field(loop, "condition"), statements(field(loop, "body"))
    count = next((i for i, n in enumerate(body) if n.type != "declaration"), len(body))
    if count == len(body) or body[count].type != "for_statement":
        raise Refused("no loop works out each pair")
    if any(n.type in _LEAVES for w in body[count:] for n in walk(w)):
        raise Refused("the loop over others is left early")
    bound = view.written(field(condition, "right"))
    limit = bound if operator_of(condition) == "<" else f"{bound} + 1"
    other = Axis(variable, kind, "", limit=limit if re.fullmatch(r"[\w.]+", limit) else f"({limit})")
    own = [d for n in body[:count] for d in declared_in(view, n)]
    changed = {
        name for name, place in assigned(loop, view) if place.type in ("identifier", "field_expression")
    }
    kept = tuple(d for d in outputs.declared if d.name in changed)
    names = {d.name for d in own}
    if any(
        outputs.resting(view.names(d.value))
        for d in kept
        if d.value is not None and any(view.elements(d.value))
    ):
        raise Refused("what lives through the loop begins with an element of the item")
    rests = {**outputs.rests, variable: frozenset({variable})}
    for one in own:
        found = view.names(one.value) if one.value is not None else frozenset[str]()
        rests[one.name] = frozenset[str]().union(*(rests.get(n, frozenset()) for n in found))
    inner = Outputs(
        axes=(outputs.axes[0], other),
        declared=(*(d for d in outputs.declared if d not in kept and d.name != variable), *own),
        uniform=outputs.uniform,
        others=(),
        work=tuple(body[count:]),
        early=(),
        rests=rests,
    )
    others = changed - names - {d.name for d in kept} - _declared_below(view, loop)
    if outputs.others or others:
        raise Refused("the loop over others changes more than its thread's own results")
    product = read_product(view, inner)
    if {o.axis for o in product.operands} != {outputs.axes[0].name, variable}:
        raise Refused("no pair has elements of its item and of the other")
    read = {o.array for o in product.operands}
    if any(view.array(e) in (*read, "") for n in (*product.tail, *after) for e in stores(view, n)):
        raise Refused("it writes what it reads")
    return ItemPairs(outputs.axes[0], other, kind, first, condition, kept, tuple(after), product)


def _declared_below(view: View, loop: Node) -> set[str]:
    """Names that the loop itself declares, at any depth."""
    found = set()
    for node in walk(loop):
        if node.type == "declaration":
            found |= {d.name for d in declared_in(view, node)}
    return found
