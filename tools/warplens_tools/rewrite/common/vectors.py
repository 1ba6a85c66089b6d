# SPDX-License-Identifier: Apache-2.0
"""Neighbouring elements loaded and stored together: which accesses can be, and the code that does it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.cuda.values import forms
from warplens_tools.cuda.values.forms import Form
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import Declared
from warplens_tools.rewrite.common.reading import (
    JUMPS,
    View,
    assigned,
    calls,
    field,
    operator_of,
    squeezed,
    stores,
    unwrapped,
)

#: The widest load and store, in bytes.
WIDEST = 16
CAVEAT = "results change if one of the buffers overlaps another at an offset"
_BRANCHES = LOOPS | {"if_statement", "conditional_expression", "switch_statement"}
_NAMED = {"float": "float", "double": "double", "int": "int", "unsigned int": "uint", "unsigned": "uint",
          "unsigned char": "uchar", "char": "char", "uint8_t": "uchar", "short": "short"}  # fmt: skip
BY_BYTES = {2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}
#: Elements of one index that are still loaded together: red, green and blue, or up to 16 bytes that are used, as
#: of pixels that a thread has four of.
_MOST_FIELDS, _FEW_FIELDS = 16, 4
#: Places of one array that a thread has a vector at: the halves of a row, and one of each of two neighbours.
_MOST_PLACES = 4


class Array(msgspec.Struct, frozen=True):
    """An array whose elements are accessed at an index that neighbours have side by side."""

    name: str
    #: The access as written whose offset is the least, and that offset.
    written: str
    least: int
    #: All accesses, each with its offset.
    places: tuple[tuple[Node, int], ...]
    type: str
    bytes: int
    #: Elements from one index to the next.
    fields: int
    #: The index but for a constant.
    base: Form | None
    read: bool
    stored: bool
    #: Tells it from vectors of the same array at other places: 0 for the first.
    number: int = 0
    #: Conditions on the index that single accesses stand under, as written, and whether the last index fails them
    #: first: a vector is only where they hold for all of it.
    asked: tuple[tuple[str, bool], ...] = ()

    def width(self, count: int) -> int:
        """Bytes of the elements of `count` indices."""
        return self.bytes * self.fields * count

    def chunk(self, count: int) -> int:
        """Bytes of each load of them."""
        return next(c for c in (16, 8, 4, 2, 1) if self.width(count) % c == 0)

    def vector(self, count: int) -> str:
        """The type of one load."""
        named, elements = _NAMED.get(self.type), self.chunk(count) // self.bytes
        if named is not None and elements in (2, 4) and elements * self.bytes == self.chunk(count):
            return f"{named}{elements}"
        return BY_BYTES[self.chunk(count)]


class Work(msgspec.Struct, frozen=True):
    """What is done for each value of an index that neighbouring threads have side by side."""

    name: str
    type: str
    limit: str
    statements: tuple[Node, ...]
    #: Integers and pointers that rest on the index, and what else is declared anew for each.
    declared: tuple[Declared, ...] = ()
    #: Further conditions for the work, as written.
    others: tuple[str, ...] = ()
    #: In a loop: what all threads begin at, the thread's place from there, and its step, as written; the place is ""
    #: where a thread goes from element to element.
    base: str = ""
    first: str = ""
    step: str = ""
    #: In a loop: the symbol that counts its iterations, and the form of its step.
    counter: str = ""
    stride: Form | None = None
    #: The constant in what all threads begin at: `kHeld * 32` elements that were taken before.
    begun: int = 0
    #: In a loop over a stretch that data tell the begin of: that, as written.
    begin: str = ""

    def fields(self, offset: Form) -> int | None:
        """Elements from one index to the next; None where that is no constant."""
        if not self.counter or self.stride is None:
            return offset.coefficient("threadIdx.x")
        growth = offset.growth(self.counter)
        known = (
            f for f in range(1, _MOST_FIELDS + 1) if growth == forms.multiply(self.stride, forms.number(f))
        )
        return next(known, None)


def read_arrays(
    view: View, work: Work, names: tuple[str, ...] = (), *, wide: bool = False
) -> tuple[Array, ...]:
    """The arrays to access in vectors; `names` limits them. `wide`: also where all that is read is of 8 bytes or more
    an element, of which a vector saves little.

    Raises:
        Refused: there are none, or the work cannot be done for several indices at a time.
    """
    _check(view, work)
    inside = [*work.statements, *(d.value for d in work.declared if d.value is not None)]
    written_to = {e.id for n in work.statements for e in stores(view, n)}
    updated = {root for n in work.statements for root in _updated(view, n)}
    found: dict[tuple[str, int], Array] = {}
    for node in (e for n in inside for e in view.elements(n)):
        is_address = node.parent is not None and node.parent.type == "pointer_expression"
        one = None if is_address else _array(view, work, node, node.id in written_to)
        if one is None or one.name in updated or (names and one.name not in names):
            continue
        _put(found, one)
    astray = _stored_elsewhere(view, inside, written_to, found.values())
    arrays = tuple(
        _first_stored(view, work, a) for a in found.values() if _is_whole(a) and a.name not in astray
    )
    _check_arrays(view, work, arrays, wide=wide)
    return tuple(msgspec.structs.replace(a, asked=tuple(_asked(view, work, a))) for a in arrays)


def _stored_elsewhere(
    view: View, inside: Sequence[Node], written_to: Collection[int], arrays: Iterable[Array]
) -> set[str]:
    """The arrays of which a store goes to another place than the work's own, as to the partner in an exchange: a vector
    would be stored over what others, or this thread, have put there since it was loaded.
    """
    own = {place.id for array in arrays for place, _ in array.places}
    others = (e for n in inside for e in view.elements(n) if e.id in written_to and e.id not in own)
    pointers = (view.place(e) for e in others)
    return {pointer.name for pointer in pointers if pointer is not None}


def _check(view: View, work: Work) -> None:
    nodes = [n for s in work.statements for n in walk(s)]
    if any(n.type in JUMPS for n in nodes):
        raise Refused("the work on an element is left early")
    if any(name == work.name for s in work.statements for name, _ in assigned(s, view)):
        raise Refused("the element's number changes")
    code = " ".join(view.code(s) for s in work.statements)
    if re.search(r"\b(?:threadIdx|blockDim|gridDim|__sync\w*|__shfl\w*)\b", code):
        raise Refused("the work rests on the thread's place in its block")


def _array(view: View, work: Work, node: Node, is_store: bool) -> Array | None:
    """What one access shows of its array; None for one that stays as it is."""
    pointer = view.place(node)
    if node.type != "subscript_expression" or pointer is None or pointer.space != "global":
        return None
    index, offset = field(node, "indices").named_children[0], pointer.traced
    size = type_bytes(view.concrete(pointer.element_type))
    if not view.is_plain_enough(node) or offset is None or size is None or not 0 < size <= 12:
        return None
    fields = work.fields(offset)
    if fields is None or not 1 <= fields <= max(_FEW_FIELDS, WIDEST // size):
        return None
    least = offset.constant - work.begun * fields
    if not 0 <= least < fields:
        return None
    own = {
        d.name for s in work.statements for n in walk(s) if n.type == "identifier" for d in _of(view, n, s)
    }
    if view.names(node) & own or re.search(r"[/%]", view.code(index)):
        return None
    reads = not is_store or _also_reads(node)
    return Array(
        pointer.name,
        view.written(node),
        least,
        ((node, least),),
        pointer.element_type,
        size,
        fields,
        forms.subtract(offset, forms.number(offset.constant)),
        reads,
        is_store,
    )


def _updated(view: View, node: Node) -> Iterator[str]:
    """The arrays that atomics below a node go to."""
    for name, call in calls(node, view):
        given = field(call, "arguments").named_children
        pointer = view.pointers.pointer(given[0]) if name.startswith("atomic") and given else None
        if pointer is not None:
            yield pointer.name


class _Named(msgspec.Struct, frozen=True):
    name: str


def _of(view: View, node: Node, statement: Node) -> list[_Named]:
    """The name, where this identifier is the one that a declaration inside the statement declares."""
    del statement
    parent = node.parent
    is_declared = parent is not None and (
        (parent.type == "init_declarator" and field(parent, "declarator").id == node.id)
        or parent.type in ("declaration", "pointer_declarator", "array_declarator")
    )
    return [_Named(view.code(node))] if is_declared else []


def _put(found: dict[tuple[str, int], Array], one: Array) -> None:
    """Add an access to the vector that it is of, or as one of another place of its array."""
    mine = [a for a in found.values() if a.name == one.name]
    if any((a.fields, a.type) != (one.fields, one.type) for a in mine):
        raise Refused(f"{one.name} is accessed at several indices of the thread's own")
    same = next((a for a in mine if a.base == one.base), None)
    if same is not None:
        found[one.name, same.number] = _joined(same, one)
        return
    if len(mine) == _MOST_PLACES or (mine and one.fields > 1):
        raise Refused(f"{one.name} is accessed at several indices of the thread's own")
    found[one.name, len(mine)] = msgspec.structs.replace(one, number=len(mine))


def _joined(a: Array, b: Array) -> Array:
    """Two accesses of one vector as one."""
    first = a if a.least <= b.least else b
    return msgspec.structs.replace(
        first, places=(*a.places, *b.places), read=a.read or b.read, stored=a.stored or b.stored
    )


def _is_whole(array: Array) -> bool:
    """Whether all fields that are stored to are all there are, for others would be overwritten; and of many, whether
    most are accessed.
    """
    if array.fields > _FEW_FIELDS and 2 * len({offset for _, offset in array.places}) < array.fields:
        return False
    if array.fields == 1 or not array.stored:
        return True
    return {offset for _, offset in array.places} >= set(range(array.fields))


def _first_stored(view: View, work: Work, array: Array) -> Array:
    """The array without its load, where each element is stored to before it is read."""
    first = min((p for p, _ in array.places), key=lambda p: p.start_byte)
    whole = first.parent
    is_store = whole is not None and whole.type == "assignment_expression" and not _also_reads(first)
    if not array.stored or array.fields > 1 or whole is None or not is_store or _is_conditional(first, work):
        return array
    value = field(whole, "right")
    if any(value.start_byte <= p.start_byte < value.end_byte for p, _ in array.places):
        return array
    return msgspec.structs.replace(array, read=False) if view.is_plain_enough(first) else array


def _also_reads(node: Node) -> bool:
    """Whether `a[i] += …`, `a[i]++` reads too."""
    outer = node.parent
    operator = outer.child_by_field_name("operator") if outer is not None else None
    return operator is None or operator.type != "="


def _check_arrays(view: View, work: Work, arrays: tuple[Array, ...], *, wide: bool) -> None:
    """That vectors are most of the traffic, and that what is stored is stored for every element."""
    own = {p.id for a in arrays for p, _ in a.places}
    for loop in (n for s in work.statements for n in walk(s) if n.type in LOOPS):
        if any(e.id not in own and view.space(e) == "global" for e in view.elements(loop)):
            raise Refused("most of what it reads is not its own element")
    for array in arrays:
        blind = array.stored and not array.read
        if blind and (work.others or all(_is_conditional(p, work) for p, _ in array.places)):
            raise Refused(f"{array.name} is stored to under a condition")
    if not arrays or (not wide and all(a.bytes * a.fields >= 8 and not a.stored for a in arrays)):
        raise Refused("no array is accessed at the thread's own index")


def _asked(view: View, work: Work, array: Array) -> Iterator[tuple[str, bool]]:
    """`Array.asked`: `3 * i + 1 < n` of `3 * i + 1 < n ? in[3 * i + 1] : 0`."""
    tops, seen = {s.id for s in work.statements}, set[str]()
    for place, _ in array.places:
        child, outer = place, place.parent
        while outer is not None and child.id not in tops:
            if outer.type in ("if_statement", "conditional_expression"):
                then = field(outer, "consequence")
                holds = then.start_byte <= place.start_byte < then.end_byte
                for part in _comparisons(field(outer, "condition"), "&&" if holds else "||"):
                    last = _fails_last(view, work, part, holds=holds)
                    if last is None and _is_of_place(view, work, part):
                        last = False
                    said = view.written(part) if holds else f"!({view.written(part)})"
                    if last is not None and said not in seen and child.id != field(outer, "condition").id:
                        seen.add(said)
                        yield said, last
            child, outer = outer, outer.parent


def _comparisons(node: Node, joined: str) -> Iterator[Node]:
    inner = unwrapped(node)
    if inner.type == "binary_expression" and operator_of(inner) == joined:
        for side in ("left", "right"):
            yield from _comparisons(field(inner, side), joined)
    elif inner.type == "binary_expression" and operator_of(inner) in ("<", "<=", ">", ">=", "!="):
        yield inner


def _declared_inside(view: View, work: Work) -> set[str]:
    inside = (n for s in work.statements for n in walk(s) if n.type == "identifier")
    return {d.name for n in inside for d in _of(view, n, n)}


def _is_of_place(view: View, work: Work, node: Node) -> bool:
    """Whether a comparison asks for the thread's place along another axis, alike for all of a vector."""
    if view.names(node) & {work.name, *(d.name for d in work.declared), *_declared_inside(view, work)}:
        return False
    sides = [view.forms.form(field(node, side)) for side in ("left", "right")]
    if any(form is None or form.told is None for form in sides):
        return False
    found = {s.kind for form in sides if form is not None for s in form.symbols}
    return bool(found & {"thread", "block"})


def _fails_last(view: View, work: Work, node: Node, *, holds: bool) -> bool | None:
    """Whether a comparison, or its opposite, fails for larger indices first; None where the index does not decide."""
    left, right = view.forms.form(field(node, "left")), view.forms.form(field(node, "right"))
    own = _declared_inside(view, work)
    said = squeezed(view.code(node))
    # asked of a vector's end in any case
    if (
        left is None
        or right is None
        or view.names(node) & own
        or said == squeezed(f"{work.name}<{work.limit}")
    ):
        return None
    difference, stride = forms.subtract(left, right), work.stride
    if difference is None:
        return None
    if work.counter and stride is not None:
        growth = difference.growth(work.counter)
        ways = (f for f in range(-_MOST_FIELDS, _MOST_FIELDS + 1) if f)
        sign = next((f for f in ways if growth == forms.multiply(stride, forms.number(f))), 0)
    else:
        sign = difference.coefficient("threadIdx.x") or 0
    if not sign:
        return None
    if operator_of(node) == "!=":
        return None
    upper = operator_of(node) in ("<", "<=")
    return (sign > 0) == (upper == holds)


def _is_conditional(node: Node, work: Work) -> bool:
    tops = {s.id for s in work.statements}
    outer = node.parent
    while outer is not None and outer.id not in tops:
        if outer.type in _BRANCHES:
            return True
        outer = outer.parent
    return outer is None or outer.type in _BRANCHES


def elements_of_vector(view: View, arrays: tuple[Array, ...]) -> int:
    """Indices to do at a time, so that the widest of the arrays is loaded 16 bytes at a time."""
    sizes = [(type_bytes(view.concrete(a.type)) or 4) for a in arrays]
    if any(a.fields > _FEW_FIELDS for a in arrays):
        # of a thread that has several already
        return max(WIDEST // min(s * a.fields for s, a in zip(sizes, arrays, strict=True)), 2)
    single = [s // 3 if s % 3 == 0 else s for s in sizes]
    return max(WIDEST // max(single), 2)
