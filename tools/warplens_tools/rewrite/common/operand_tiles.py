# SPDX-License-Identifier: Apache-2.0
"""Loops in which the threads of a block read the same operands: what is read, and what rests on which output.

The loop of a matrix product, of pairwise distances, of all bodies acting on one: each thread owns an output (or one
of a row and column), walks `k`, and reads elements that rest on `k` and on at most one of its axes.
"""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import Declared, declared_in, unqualified
from warplens_tools.rewrite.common.fills import Fill
from warplens_tools.rewrite.common.loop_header import UNEVEN, header_of
from warplens_tools.rewrite.common.outputs import THREAD, Outputs
from warplens_tools.rewrite.common.reading import (
    JUMPS,
    View,
    assigned,
    calls,
    field,
    operator_of,
    squeezed,
    statements,
    stores,
    unwrapped,
)
from warplens_tools.rewrite.common.zeros import zero_is_neutral

#: Comparisons that may keep an index in its range; `i != j` does not.
_COMPARED = frozenset({"<", "<=", ">", ">="})
#: Calls that may stand in the loop: arithmetic that touches no memory.
_HARMLESS = re.compile(r"(?!atomic|__ldg|__ld|__st|__sh|__sync|printf|mem)\w[\w:<> ]*")


class Operand(msgspec.Struct, frozen=True):
    """One element that the loop reads in every iteration."""

    #: The access as the user wrote it.
    written: str
    #: Where it stands in the loop; `__ldg(&a[i])` as a whole.
    places: tuple[Node, ...]
    element_type: str
    array: str
    #: The axis that it rests on beside the loop's variable; None for none.
    axis: str | None
    #: Neighbours in the loop are neighbours in memory.
    along_loop: bool
    names: frozenset[str]


class State(msgspec.Struct, frozen=True):
    """A variable of one output (or of one value of an axis) that lives through the loop."""

    declared: Declared
    #: The axes that tell its instances apart.
    axes: frozenset[str]


class Product(msgspec.Struct, frozen=True):
    """A kernel whose work is one loop over operands, and what is done with its results."""

    outputs: Outputs
    loop: Node
    variable: str
    type: str
    first: str
    condition: Node
    body: tuple[Node, ...]
    #: Integers and pointers that the loop's body declares.
    locals: tuple[Declared, ...]
    operands: tuple[Operand, ...]
    #: Elements that the loop reads again and again, one for each value of an axis.
    kept: tuple[Operand, ...]
    states: tuple[State, ...]
    tail: tuple[Node, ...]
    #: An iteration in which every operand is zero changes nothing.
    zero_is_neutral: bool
    #: Where a zero would change something: what every operand may be without changing anything; None for nothing.
    fill: Node | None = None
    #: The axis along which the loop is longer for some outputs than for others; "" where it is as long for all.
    ragged: str = ""


def read_product(view: View, outputs: Outputs, *, ragged: str = "") -> Product:
    """The loop over shared operands. `ragged`: the axis along which it may be longer for some outputs.

    Raises:
        Refused: the work is of another shape.
    """
    if not 1 <= len(outputs.axes) <= 2:
        raise Refused("no output of its own is computed by each thread")
    if len(outputs.axes) == 1 and _is_divided(view, outputs):
        raise Refused("outputs that lie in a plane are numbered by one axis")
    loop, tail = outputs.work[0], outputs.work[1:]
    if loop.type != "for_statement":
        raise Refused("the work does not begin with a loop")
    _check_plain(view, outputs, [loop, *tail])
    variable, written, first = header_of(view, outputs, loop, but=ragged)
    body = statements(field(loop, "body"))
    rests, found = _locals(view, outputs, body, variable)
    states = _states(view, outputs, loop, variable)
    if len(outputs.axes) == 1 and any(n.type in LOOPS for w in tail for n in walk(w)):
        raise Refused("the work goes on with other loops")
    operands, kept = _operands(view, outputs, loop, body, rests, {s.declared.name for s in states})
    places = {p.id for o in operands for p in o.places}
    is_neutral = zero_is_neutral(view, body, places)
    along = {p.id for o in operands for p in o.places if o.axis == ragged}
    if ragged and not zero_is_neutral(view, body, along):
        raise Refused(UNEVEN)
    return Product(
        outputs=outputs,
        loop=loop,
        variable=variable,
        type=written,
        first=first,
        condition=field(loop, "condition"),
        body=tuple(body),
        locals=tuple(found),
        operands=operands,
        kept=kept,
        states=states,
        tail=tuple(tail),
        zero_is_neutral=is_neutral,
        fill=None if is_neutral else _fill(view, loop, operands, states),
        ragged=ragged,
    )


def _fill(view: View, loop: Node, operands: tuple[Operand, ...], states: tuple[State, ...]) -> Node | None:
    """What a minimum or a maximum begins at, where it stays that if every operand is it."""
    changed = {name for name, _ in assigned(field(loop, "body"), view)}
    begun = [s.declared for s in states if s.declared.name in changed]
    value = begun[0].value if len(begun) == 1 else None
    if value is None or any(o.element_type != unqualified(begun[0].type) for o in operands):
        return None
    fill = Fill(view, {p.id: value for o in operands for p in o.places}, begun)
    return value if fill.changes_nothing(field(loop, "body")) else None


def _is_divided(view: View, outputs: Outputs) -> bool:
    """Whether the thread's number is divided into indices: threads then share operands that no tile knows of."""
    name = outputs.axes[0].name
    return any(
        re.search(rf"\b{name}\b[\s)]*[/%]", view.code(d.value))
        for d in outputs.declared
        if d.value is not None
    )


def _check_plain(view: View, outputs: Outputs, nodes: list[Node]) -> None:
    code = " ".join(view.code(n) for n in nodes)
    letters = "".join(a.letter for a in outputs.axes)
    if re.search(rf"\b(?:threadIdx|blockDim|gridDim)\b|\bblockIdx\s*\.\s*[{letters}]", code):
        raise Refused("the work itself says which thread does it")
    used = frozenset().union(*(view.names(n) for n in nodes))
    if THREAD in outputs.resting(used):
        raise Refused("the work rests on the thread's place in its block")
    if any(n.type in JUMPS and not _skips(n, nodes[0]) for n in walk(nodes[0])) or any(
        n.type == "return_statement" for node in nodes for n in walk(node)
    ):
        raise Refused("the loop is left early")


def _skips(node: Node, loop: Node) -> bool:
    """Whether a jump goes on with the loop's next step for this output: the loop over its outputs is written inside."""
    at = node.parent
    while at is not None and at.type not in LOOPS:
        at = at.parent
    return node.type == "continue_statement" and at is not None and at.id == loop.id


def _locals(
    view: View, outputs: Outputs, body: list[Node], variable: str
) -> tuple[dict[str, frozenset[str]], list[Declared]]:
    """What the names of the loop's body rest on, and the integers and pointers among its declarations."""
    rests = {**outputs.rests, variable: frozenset({variable})}
    found = []
    for statement in body:
        if statement.type != "declaration":
            continue
        for one in declared_in(view, statement):
            names = view.names(one.value) if one.value is not None else frozenset()
            rests[one.name] = frozenset().union(*(rests.get(n, frozenset()) for n in names))
            if one.is_index:
                found.append(one)
    return rests, found


def _states(view: View, outputs: Outputs, loop: Node, variable: str) -> tuple[State, ...]:
    """Variables of the outputs: what the loop accumulates, and values kept from before it."""
    changed = {name for name, _ in assigned(field(loop, "body"), view)}
    inside = {view.code(n) for n in walk(loop) if n.type == "identifier"}
    inside |= {view.code(n) for w in outputs.work[1:] for n in walk(w) if n.type == "identifier"}
    axes = frozenset(a.name for a in outputs.axes)
    states = []
    for one in outputs.declared:
        if one.name == variable or one.name not in inside:
            continue
        if one.name in changed:
            states.append(State(one, axes))
        elif outputs.rests[one.name] and not (one.is_index and not _reads(view, one.value)):
            states.append(State(one, outputs.rests[one.name] & axes))
    known = {s.declared.name for s in states}
    own = {
        d.name
        for n in statements(field(loop, "body"))
        if n.type == "declaration"
        for d in declared_in(view, n)
    }
    nested = {view.code(n) for n in walk(loop) if n.type == "identifier" and _is_declared_inside(n)}
    if changed - known - own - nested:
        raise Refused("the loop writes more than its own results")
    if not any(s.declared.name in changed for s in states):
        raise Refused("the loop accumulates nothing")
    return tuple(states)


def _is_declared_inside(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.type in ("init_declarator", "declaration")


def _reads(view: View, value: Node | None) -> bool:
    return value is not None and (any(view.elements(value)) or any(calls(value, view)))


def _operands(
    view: View,
    outputs: Outputs,
    loop: Node,
    body: list[Node],
    rests: dict[str, frozenset[str]],
    states: set[str],
) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    axes = frozenset(a.name for a in outputs.axes)
    variable = next(iter(_variable_of(view, loop)))
    inner = _inner_names(view, body)
    found: dict[str, Operand] = {}
    kept: dict[str, Operand] = {}
    for statement in body:
        for node in _read_in(view, statement):
            names = view.names(node)
            on = frozenset().union(*(rests.get(n, frozenset()) for n in names))
            if view.space(node) in ("constant", "local") or not on:
                continue
            if view.space(node) != "global" or names & states or not view.is_plain_enough(node):
                raise Refused("the loop reads what is not known to be an array of global memory")
            if names & inner:
                raise Refused("an inner loop reads other elements in each of its steps")
            if _is_guarded(view, node, statement, names | {variable}):
                raise Refused("a condition keeps an access inside its array")
            if len(on & axes) > 1 or on - axes - {variable}:
                raise Refused("the loop reads elements that no other thread of the block reads")
            place = _loaded(view, node)
            key = squeezed(view.code(node))
            known = found.get(key) or kept.get(key)
            places = (*known.places, place) if known is not None else (place,)
            (found if variable in on else kept)[key] = _operand(view, node, places, on & axes, variable)
    if stores(view, loop):
        raise Refused("the loop stores to memory")
    if not any(o.axis is None or len(axes) > 1 or o.along_loop for o in found.values()):
        raise Refused("no operand is read by several threads of a block, or across memory")
    _check_calls(view, loop, {**found, **kept})
    return tuple(found.values()), tuple(kept.values())


def _is_guarded(view: View, node: Node, statement: Node, names: frozenset[str]) -> bool:
    """Whether an element is read only where a condition on its own index holds: `if (k >= 0) sum += a[k];`"""
    child, outer = node, node.parent
    while child.id != statement.id and outer is not None:
        if outer.type in ("if_statement", "conditional_expression"):
            condition = field(outer, "condition")
            compared = [n for n in walk(condition) if operator_of(n) in _COMPARED]
            if child.id != condition.id and any(view.names(n) & names for n in compared):
                return True
        child, outer = outer, outer.parent
    return False


def _inner_names(view: View, body: list[Node]) -> set[str]:
    """Variables of loops and blocks inside the loop's body: nothing is known of them where tiles are filled."""
    nested = [n for s in body if s.type != "declaration" for n in walk(s) if n.type == "declaration"]
    return {d.name for n in nested for d in declared_in(view, n)}


def _read_in(view: View, statement: Node) -> list[Node]:
    """The elements that a statement reads, `p + i` of `__ldg(p + i)` among them."""
    loaded = [field(c, "arguments") for name, c in calls(statement, view) if name.startswith("__ldg")]
    sums = [a.named_children[0] for a in loaded if a.named_child_count == 1]
    return [*view.elements(statement), *(n for n in sums if n.type in ("binary_expression", "identifier"))]


def _variable_of(view: View, loop: Node) -> list[str]:
    condition = field(loop, "condition")
    return [view.code(unwrapped(field(condition, "left")))]


def _operand(view: View, node: Node, places: tuple[Node, ...], on: frozenset[str], variable: str) -> Operand:
    element = view.element(node)
    if not element:
        raise Refused("the type of an operand is not known")
    return Operand(
        written=view.written(_loaded(view, node)),
        places=places,
        element_type=element,
        array=view.array(node),
        axis=next(iter(on), None),
        along_loop=_is_along(view, node, variable),
        names=view.names(node),
    )


def _is_along(view: View, node: Node, variable: str) -> bool:
    """Whether the next iteration reads the next element."""
    pointer = view.place(node)
    offset = pointer.traced if pointer is not None else None
    if offset is None:
        added = _added(view, node)
        return variable in added or not added
    own = [s.name for s in offset.symbols if s.kind == "loop" and s.name.partition("@")[0] == variable]
    return any(offset.coefficient(name) == 1 for name in own)


def _added(view: View, node: Node) -> set[str]:
    """The names that an index is the sum of, among other terms: `j` of `k * NJ + j`, where a header defines NJ."""
    listed = node.child_by_field_name("indices")
    stack, found = list(listed.named_children if listed is not None else [node]), set[str]()
    while stack:
        term = unwrapped(stack.pop())
        if term.type == "binary_expression" and operator_of(term) == "+":
            stack += [field(term, "left"), field(term, "right")]
        elif term.type == "identifier":
            found.add(view.code(term))
    return found


def _loaded(view: View, node: Node) -> Node:
    """The access, or the whole of `__ldg(&a[i])` around it."""
    address = node.parent
    if (
        address is not None
        and address.type == "argument_list"
        and view.code(address.parent or node).startswith("__ldg")
    ):
        return address.parent or node
    if address is None or address.type != "pointer_expression" or not view.code(address).startswith("&"):
        return node
    call = address.parent.parent if address.parent is not None else None
    if call is not None and call.type == "call_expression" and view.code(call).startswith(("__ldg", "__ldc")):
        return call
    raise Refused("the loop takes the address of an element")


def _check_calls(view: View, loop: Node, operands: dict[str, Operand]) -> None:
    """No call of the loop may touch memory, and no pointer is passed on."""
    inside = [p for o in operands.values() for p in o.places]
    for name, call in calls(loop, view):
        if any(p.start_byte <= call.start_byte < p.end_byte for p in inside):
            continue
        if not _HARMLESS.fullmatch(name):
            raise Refused(f"the loop calls {name}")
    pointers = {p.name for p in view.kernel.parameters if p.pointer}
    for node in walk(loop):
        if node.type == "identifier" and view.code(node) in pointers:
            outer = node.parent
            while outer is not None and outer.type in ("binary_expression", "parenthesized_expression"):
                outer = outer.parent
            passed = outer is not None and outer.type == "argument_list"
            if passed and not any(p.start_byte <= node.start_byte < p.end_byte for p in inside):
                raise Refused("the loop passes an array on")
