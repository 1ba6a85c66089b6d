# SPDX-License-Identifier: Apache-2.0
"""Loops of a block's threads over outputs that have nothing to do with each other."""

from __future__ import annotations

import re
from itertools import chain

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.counting import Counting, counting
from warplens_tools.rewrite.common.declared import declared_in, plainly_declared_in
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.outputs import Axis, Outputs, is_array
from warplens_tools.rewrite.common.reading import (
    JUMPS,
    View,
    assigned,
    field,
    squeezed,
    statements,
    stores,
    unwrapped,
)

#: What a loop over outputs may not ask for besides.
_OWN = re.compile(r"\b(?:threadIdx|blockDim|gridDim)\b|\bblockIdx\s*\.\s*z\b")


def strided_by_block(view: View, launches: Launches) -> Counting:
    """The loop of a block's threads over its outputs, which the kernel ends with.

    Raises:
        Refused: it ends with none, or does more before it than declare and leave.
    """
    at = statements(view.body)
    while at and at[-1].type == "if_statement" and at[-1].child_by_field_name("alternative") is None:
        check_before(at[:-1])
        at = statements(field(at[-1], "consequence"))
    loop = counting(view.expanded, at[-1]) if at and at[-1].type == "for_statement" else None
    check_before(at[:-1])
    if loop is None or not loop.declared or loop.first is None or len(loop.bounds) != 1 or loop.downward:
        raise Refused("no loop of a block's threads over outputs ends the kernel")
    size = launches.block_value(0)
    condition = squeezed(view.code(unwrapped(field(loop.node, "condition"))))
    step = squeezed(loop.step)
    by_block = step == "blockDim.x" or (
        size is not None and view.expanded.constants.value(step, loop.node.start_byte) == size
    )
    if (
        squeezed(view.code(loop.first)) != "threadIdx.x"
        or not by_block
        or not view.is_plain_enough(loop.node)
    ):
        raise Refused("no loop of a block's threads over outputs ends the kernel")
    if not condition.startswith(f"{loop.variable}<") or condition.startswith(f"{loop.variable}<="):
        raise Refused("its loop ends elsewhere")
    return loop


def check_before(nodes: list[Node]) -> None:
    """Raises `Refused` where what comes before the loop is more than declarations and ways out."""
    for node in nodes:
        leaves = node.type == "if_statement" and node.child_by_field_name("alternative") is None
        only = statements(field(node, "consequence")) if leaves else []
        if node.type != "declaration" and [n.type for n in only] != ["return_statement"]:
            raise Refused("the kernel does more than its loop over outputs")


def check_apart(view: View, loop: Counting) -> None:
    """Raises `Refused` where iterations have to do with each other, or are too short to be worth it."""
    inside = [n for n in walk(loop.body) if n.type in LOOPS]
    if not inside:
        raise Refused("an output takes no loop")
    if any(
        n.type in JUMPS and not any(i.start_byte <= n.start_byte < i.end_byte for i in inside)
        for n in walk(loop.body)
    ):
        raise Refused("the loop over outputs is left early")
    outside = view.tree.masked.code[view.body.start_byte : loop.node.start_byte].decode("ascii")
    rest = _OWN.search(outside) or _OWN.search(view.code(loop.body)) or _OWN.search(view.code(loop.bounds[0]))
    if rest is not None:
        raise Refused("the numbers of threads and blocks are used elsewhere too")
    own = [d for n in walk(loop.body) for d in plainly_declared_in(view, n)]
    names = {d.name for d in own}
    changed = {name for name, place in assigned(loop.body, view) if place.type == "identifier"}
    loops = {c.variable for i in inside if (c := counting(view.expanded, i)) is not None and c.declared}
    if changed - names - loops:
        raise Refused("its loop folds into a variable")
    written = stores(view, loop.body)
    rests = {loop.variable}
    for one in own:
        rests |= {one.name} if one.value is not None and view.names(one.value) & rests else set()
    if not written or any(not view.names(e) & rests for e in written):
        raise Refused("an element that it stores is not one output's own")
    places = {(view.array(e), squeezed(view.code(e))) for e in written}
    arrays = {array for array, _ in places}
    for element in view.elements(view.body):
        array = view.array(element)
        if (not array or array in arrays) and (array, squeezed(view.code(element))) not in places:
            raise Refused("an output reads what another one writes")
    taken = [d.name for n in walk(view.body) for d in plainly_declared_in(view, n)]
    if taken.count(loop.variable) > 1:
        raise Refused(f"another variable is called {loop.variable}, too")


def outputs_of(view: View, loop: Counting) -> Outputs:
    """The outputs of the loop, its variable as their axis, as if a thread had one of them.

    Raises:
        Refused: a declaration is not understood.
    """
    declared, rest = [d for n in _before(view, loop) for d in declared_in(view, n)], statements(loop.body)
    while rest and rest[0].type == "declaration" and not is_array(view, rest[0]):
        declared += declared_in(view, rest[0])
        rest = rest[1:]
    rests = {loop.variable: frozenset({loop.variable})}
    for one in declared:
        names = view.names(one.value) if one.value is not None else frozenset[str]()
        rests[one.name] = frozenset(chain.from_iterable(rests.get(n, ()) for n in names))
    kind = declared_in(view, field(loop.node, "initializer"))[0].type
    limit = view.written(loop.bounds[0])
    axis = Axis(loop.variable, kind, "x", limit=limit, value="threadIdx.x", at=loop.node.start_byte)
    return Outputs((axis,), tuple(declared), (), (), tuple(rest), (), rests)


def _before(view: View, loop: Counting) -> list[Node]:
    """The declarations before the loop."""
    return [
        n
        for n in walk(view.body)
        if n.type == "declaration"
        and n.end_byte <= loop.node.start_byte
        and n.parent is not None
        and n.parent.type == "compound_statement"
    ]


def takes_all(view: View, first: Node, step: Node) -> bool:
    """Whether first value and step deal a loop's iterations out to the threads of a block, one after the other."""
    begin, by = view.forms.form(first), view.forms.form(step)
    if begin is None or by is None:
        return False
    terms = {tuple(s.name for s in symbols): factor for symbols, factor in begin.terms}
    size = Launches(view.text, view.model, view.kernel).block_value(0)
    flat = terms == {("threadIdx.x",): 1}
    if flat and by.value is not None:
        return by.value == size
    names = [sorted(s.name for s in symbols) for symbols, factor in by.terms if factor == 1]
    plane = set(map(frozenset, terms)) == {
        frozenset({"threadIdx.x"}),
        frozenset({"threadIdx.y", "blockDim.x"}),
    }
    return len(by.terms) == 1 and (
        (flat and names == [["blockDim.x"]]) or (plane and names == [["blockDim.x", "blockDim.y"]])
    )
