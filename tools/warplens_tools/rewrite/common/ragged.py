# SPDX-License-Identifier: Apache-2.0
"""Loops over operands that are longer for some outputs than for others, as in a product with a triangular matrix:
`for (int k = 0; k <= row; k++)`.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.common.declared import declared_in
from warplens_tools.rewrite.common.outputs import Outputs
from warplens_tools.rewrite.common.reading import View, field, operator_of, renamed, squeezed, unwrapped
from warplens_tools.rewrite.common.tile_sides import Side

#: What operands that nothing reads in the user's loop might do to a sum when they are multiplied by zero.
CAVEAT = "results may differ where operands are infinite or no numbers"


def ragged_axis(view: View, outputs: Outputs, loop: Node) -> str:
    """The axis that the loop's first value or its end goes up with; "" where there is none."""
    axes = {a.name for a in outputs.axes}
    initial, condition = loop.child_by_field_name("initializer"), loop.child_by_field_name("condition")
    if initial is None or condition is None or initial.type != "declaration" or len(axes) != 2:
        return ""
    declared = declared_in(view, initial)
    ends = [declared[0].value if len(declared) == 1 else None]
    if operator_of(unwrapped(condition)) in ("<", "<="):
        ends.append(field(unwrapped(condition), "right"))
    found = {name for end in ends if end is not None for name in view.names(end) & axes}
    grows = all(_grows(view, end, axes) for end in ends if end is not None and view.names(end) & axes)
    return found.pop() if len(found) == 1 and grows else ""


def _grows(view: View, node: Node, axes: set[str]) -> bool:
    """Whether an expression is an axis, or one and a number."""
    plain = re.sub(r"[-+]\d+$", "", squeezed(view.code(unwrapped(node))))
    return plain in axes and not any(n.type == "call_expression" for n in walk(node))


class RaggedLoop:
    """What the loop of a block says, whose outputs along one axis have loops of other lengths."""

    def __init__(self, side: Side, name: str) -> None:
        self.side, self.last = side, name

    def declaration(self) -> str:
        """The block's last output along the axis."""
        side = self.side
        end = f"{side.first} + {side.tile}"
        return f"const int {self.last} = ({end} < {side.limit} ? {end} : {side.limit}) - 1;"

    def first(self, written: str) -> str:
        """The first value of any of them."""
        return renamed(written, {self.side.axis.name: self.side.first})

    def condition(self, written: str) -> str:
        """What holds as long as one of them goes on."""
        return renamed(written, {self.side.axis.name: self.last})
