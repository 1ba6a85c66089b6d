# SPDX-License-Identifier: Apache-2.0
"""A loop over tiles of shared memory, read back into the plain loop over elements that it stands for.

`As[ty][tx] = A[row * n + t * 16 + tx];` and `As[ty][k]` in the loop over `k` say `A[row * n + t * 16 + k]`: the
thread that stored the element is `k` along the index that was read by it. With `t * 16 + k` as one variable, the loop
over tiles and the loop within a tile are one. Indices are compared by their values at random points, which two
different sums of products do not share.
"""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import Declared, declared_in
from warplens_tools.rewrite.common.fills import Fill
from warplens_tools.rewrite.common.joined_loops import JoinedLoops
from warplens_tools.rewrite.common.reading import (
    WORD,
    View,
    assigned,
    calls,
    field,
    operator_of,
    renamed,
    squeezed,
    statements,
    substituted,
    unwrapped,
)

_THREAD = re.compile(r"threadIdx\s*\.\s*([xyz])")
_NOUGHT = r"0*\.?0*[fFuUlL]*"
#: `0.0f`, `(T)0`, `T(0)`, `static_cast<T>(0)`, `__float2half(0.0f)`.
_ZERO = re.compile(
    rf"(?:\(\w+\))?{_NOUGHT}|(?:[A-Z]\w*|float|double|int|half|__float2\w+|static_cast<\w+>)\({_NOUGHT}\)"
)
_OUTSIDE = "what lies outside of the tiles is not zero, nor known to change nothing"


class _Stored(msgspec.Struct, frozen=True):
    """What a thread puts into its element of a tile."""

    #: The axes of the block ("x", "y") that its indices are.
    axes: tuple[str, ...]
    #: The element of global memory, with the loop's own variables written out.
    value: str
    #: Comparisons under which it is that and not the fill.
    guards: tuple[str, ...]
    #: What it is elsewhere; None for zero.
    fill: Node | None = None


class Untiled(msgspec.Struct, frozen=True):
    """The kernel's body without tiles."""

    text: str
    #: The block's extents, as the tiles say them.
    tile: int


class TileReader:
    """One kernel with a loop over tiles. `side` is what stands for the extents of its block, where that is no number.

    Raises:
        Refused: its work is of another shape.
    """

    def __init__(self, view: View, side: int | None = None) -> None:
        self.view, self.side = view, side
        self.shared = {
            a.name: tuple(self._number(squeezed(e)) for e in a.extents)
            for a in view.kernel.arrays
            if a.space == "shared"
        }
        if not self.shared or any(len(sizes) != 2 or None in sizes for sizes in self.shared.values()):
            raise Refused("the kernel has no shared tiles of two dimensions")
        self.top = self._top()
        self.loop = next((n for n in self.top if n.type == "for_statement"), None)
        if self.loop is None or "__syncthreads" not in view.code(self.loop):
            raise Refused("no loop goes over tiles")
        at = next(i for i, n in enumerate(self.top) if n.id == self.loop.id)
        self.before, self.after = self.top[:at], self.top[at + 1 :]
        self.threads = self._threads()
        self.body = statements(field(self.loop, "body"))
        self.locals = {d.name: d for n in self.body if n.type == "declaration" for d in declared_in(view, n)}

    def _top(self) -> list[Node]:
        found = statements(self.view.body)
        if "__syncthreads" in " ".join(self.view.code(n) for n in found if n.type != "for_statement"):
            raise Refused("the threads wait for each other outside of a loop over tiles")
        return found

    def _threads(self) -> dict[str, str]:
        """The axis of the block that each expression of a thread's place is: `tx`, `threadIdx.x`."""
        found = {}
        for node in self.before:
            for one in self._declared(node):
                match = (
                    _THREAD.fullmatch(self.view.code(one.value).strip()) if one.value is not None else None
                )
                if match is not None:
                    found[one.name] = match[1]
        return found

    def _declared(self, node: Node) -> list[Declared]:
        if node.type != "declaration" or self._is_shared(node):
            return []
        return declared_in(self.view, node)

    def _is_shared(self, node: Node) -> bool:
        return "__shared__" in self.view.code(node)

    def axis(self, code: str) -> str:
        """The axis of the block that an expression is; "" for any other."""
        match = _THREAD.fullmatch(code.strip())
        return match[1] if match is not None else self.threads.get(code.strip(), "")

    def read(self) -> Untiled:
        """The body without tiles."""
        variable, step = self._header()
        stored, inner = self._stored(), self._inner()
        counter, depth = self._counter(inner)
        if step not in (1, depth):
            raise Refused("the loop does not go from tile to tile")
        whole = self._whole(counter)
        joined = JoinedLoops(variable, counter, whole, depth, step, self._known())
        guards: list[str] = []
        found = [(n, self._element(n, stored, joined, guards)) for n in self._elements(inner)]
        rows = [g for g in guards if whole not in WORD.findall(g)]
        ends = {squeezed(g): g for g in guards if whole in WORD.findall(g)}
        if len(ends) > 1:
            raise Refused("the tiles do not end at one element")
        self._check_fills(stored, inner, whole, joined)
        bound = next(iter(ends.values()), "") or self._bound(variable, step, depth, whole)
        code = substituted(self.view, field(inner, "body"), found)
        code = code if code.startswith("{") else f"{{ {code} }}"
        lines = [self.view.written(n) for n in self.before if not self._is_shared(n)]
        lines += self._guarded(rows, f"for (int {whole} = 0; {bound}; ++{whole}) {code}")
        return Untiled("{\n" + "\n".join(lines) + "\n}", depth)

    def _check_fills(self, stored: dict[str, _Stored], inner: Node, whole: str, joined: JoinedLoops) -> None:
        """That what stands in the tiles beyond the last element changes nothing."""
        fills = {name: s.fill for name, s in stored.items() if s.fill is not None}
        if not fills:
            return
        places = {e.id: fills[n] for e in self._elements(inner) if (n := self._place(e)[0]) in fills}
        for node in self._elements(inner):
            guards: list[str] = []
            self._element(node, stored, joined, guards)
            if node.id not in places or not any(whole in WORD.findall(g) for g in guards):
                raise Refused(_OUTSIDE)
        before = [d for n in self.before for d in self._declared(n)]
        if not Fill(self.view, places, before).changes_nothing(field(inner, "body")):
            raise Refused(_OUTSIDE)

    def _known(self) -> dict[str, int]:
        """The file's constants and the block's extents, by how `_value` spells them."""
        words = {*WORD.findall(self.view.code(self.view.body)), "blockDim.x", "blockDim.y"}
        values = {w.replace(".", ""): self._number(w) for w in words}
        return {w: v for w, v in values.items() if v is not None}

    def _guarded(self, rows: list[str], loop: str) -> list[str]:
        """The loop and what follows, under the conditions that the tiles were filled by."""
        after, tests = self.after, {squeezed(r): r for r in rows}
        if (
            len(after) == 1
            and after[0].type == "if_statement"
            and after[0].child_by_field_name("alternative") is None
        ):
            for part in _conjuncts(unwrapped(field(after[0], "condition"))):
                tests.setdefault(squeezed(self.view.code(part)), self.view.written(part))
            after = statements(field(after[0], "consequence"))
        tail = [self.view.written(n) for n in after]
        if not tests:
            return [loop, *tail]
        return [f"if ({' && '.join(tests.values())}) {{", loop, *tail, "}"]

    def _header(self) -> tuple[str, int]:
        """The loop's variable, and by how much it goes on."""
        assert self.loop is not None
        initial, update = (
            field(self.loop, "initializer"),
            squeezed(self.view.code(field(self.loop, "update"))),
        )
        declared = declared_in(self.view, initial) if initial.type == "declaration" else []
        if len(declared) != 1 or declared[0].value is None or self.view.value(declared[0].value) != 0:
            raise Refused("the loop over tiles does not begin at zero")
        name = declared[0].name
        if update in (f"{name}++", f"++{name}", f"{name}+=1"):
            return name, 1
        match = re.fullmatch(rf"{name}\+=(\w+(?:\.\w+)?)", update)
        value = self._number(match[1]) if match is not None else None
        if value is None or operator_of(field(self.loop, "condition")) != "<":
            raise Refused("the loop does not go from tile to tile")
        return name, value

    def _number(self, code: str) -> int | None:
        block = re.fullmatch(r"blockDim\.([xy])", code)
        if block is not None and self.side is not None:
            return self.side
        if block is not None:
            site = next(iter(self.view.model.launches_of(self.view.kernel)), None)
            return site.block_value["xy".index(block[1])] if site is not None else None
        return self.view.expanded.constants.value(code, self.view.body.start_byte)

    def _stored(self) -> dict[str, _Stored]:
        found: dict[str, _Stored] = {}
        for node in self.body:
            for place, value, guards, fill in self._stores(node):
                name, axes = self._place(place)
                if name in found or sorted(axes) != ["x", "y"]:
                    raise Refused("a tile is not filled by one element a thread")
                found[name] = _Stored(tuple(axes), value, tuple(guards), fill)
        if set(found) != set(self.shared):
            raise Refused("a tile is not filled by one element a thread")
        return found

    def _stores(self, node: Node) -> list[tuple[Node, str, list[str], Node | None]]:
        """Each element of a tile that a statement fills: the place, the value, its guards, and what it else is."""
        if node.type == "if_statement":
            guards = [self._inlined(p) for p in _conjuncts(unwrapped(field(node, "condition")))]
            other = node.child_by_field_name("alternative")
            others = [s for n in (other.named_children if other is not None else []) for s in statements(n)]
            inside = [s for n in statements(field(node, "consequence")) for s in self._stores(n)]
            fills = self._fills(others)
            if set(fills) != {squeezed(self.view.code(s[0])) for s in inside} or any(s[3] for s in inside):
                raise Refused(_OUTSIDE)
            return [(p, v, [*guards, *g], fills[squeezed(self.view.code(p))]) for p, v, g, _ in inside]
        if node.type != "expression_statement" or not any(self._is_tile(e) for e in self.view.elements(node)):
            return []
        inner = node.named_children[0]
        if inner.type != "assignment_expression" or operator_of(inner) != "=":
            return []
        right = unwrapped(field(inner, "right"))
        if right.type != "conditional_expression":
            return [(field(inner, "left"), self._inlined(right), [], None)]
        guards = [self._inlined(p) for p in _conjuncts(unwrapped(field(right, "condition")))]
        value = self._inlined(unwrapped(field(right, "consequence")))
        return [(field(inner, "left"), value, guards, self._fill(field(right, "alternative")))]

    def _fills(self, others: list[Node]) -> dict[str, Node | None]:
        """What places of tiles are filled with that no element belongs to, by the place's text."""
        found: dict[str, Node | None] = {}
        for other in others:
            inner = other.named_children[0] if other.type == "expression_statement" else other
            if inner.type != "assignment_expression" or operator_of(inner) != "=":
                raise Refused(_OUTSIDE)
            found[squeezed(self.view.code(field(inner, "left")))] = self._fill(field(inner, "right"))
        return found

    def _fill(self, node: Node) -> Node | None:
        """A constant that stands outside of a tile; None for zero."""
        node = unwrapped(node)
        return None if _ZERO.fullmatch(squeezed(self.view.code(node))) else node

    def _is_tile(self, node: Node) -> bool:
        return self._place(node)[0] in self.shared

    def _place(self, node: Node) -> tuple[str, list[str]]:
        """A tile's name, and what its indices are of the block's axes."""
        name, indices = self._indices(node)
        return name, [self.axis(i) for i in indices]

    def _indices(self, node: Node) -> tuple[str, list[str]]:
        indices: list[str] = []
        at: Node | None = node
        while at is not None and at.type == "subscript_expression":
            listed = field(at, "indices").named_children
            indices.insert(0, self.view.code(listed[0]) if len(listed) == 1 else "")
            at = at.child_by_field_name("argument")
        return (self.view.code(at) if at is not None else ""), indices

    def _inlined(self, node: Node) -> str:
        """An expression's text with the variables of the loop over tiles written out."""
        text = self.view.written(node)
        for _ in range(4):
            known = {
                n: f"({self.view.written(d.value)})"
                for n, d in self.locals.items()
                if d.value is not None and n in WORD.findall(text)
            }
            if not known:
                return text
            text = renamed(text, known)
        raise Refused("an index of the tiles is not understood")

    def _inner(self) -> Node:
        """The loop within a tile."""
        loops = [n for n in self.body if n.type == "for_statement"]
        rest = [n for n in self.body if n.type not in ("for_statement", "declaration")]
        for node in rest:
            code = squeezed(self.view.code(node))
            stores_tile = any(self._is_tile(e) for e in self.view.elements(node))
            if not (stores_tile or code.startswith("__syncthreads") or node.type.startswith("preproc")):
                raise Refused("the loop over tiles does more than filling and reading them")
        if len(loops) != 1:
            raise Refused("the tiles are not read by one loop")
        return loops[0]

    def _counter(self, loop: Node) -> tuple[str, int]:
        initial, condition = field(loop, "initializer"), field(loop, "condition")
        declared = declared_in(self.view, initial) if initial.type == "declaration" else []
        name = declared[0].name if len(declared) == 1 else ""
        update = squeezed(self.view.code(field(loop, "update")))
        value = (
            self._number(squeezed(self.view.code(field(condition, "right"))))
            if operator_of(condition) == "<"
            else None
        )
        if not name or value is None or update not in (f"{name}++", f"++{name}", f"{name}+=1"):
            raise Refused("the loop within a tile is not understood")
        if declared[0].value is None or self.view.value(declared[0].value) != 0:
            raise Refused("the loop within a tile does not begin at zero")
        if any(value not in sizes for sizes in self.shared.values()):
            raise Refused("the loop does not go through its tiles")
        changed = {n for n, _ in assigned(field(loop, "body"), self.view)}
        if name in changed or changed & set(self.shared):
            raise Refused("the loop within a tile writes the tiles")
        if any(name.startswith(("__sh", "__sync", "atomic")) for name, _ in calls(loop, self.view)):
            raise Refused("the loop within a tile does more than reading it")
        return name, value

    def _whole(self, counter: str) -> str:
        """A name for the element along both loops."""
        taken = WORD.findall(self.view.code(self.view.body))
        return next(n for n in (counter, "k", "kk", "inner", "element") if n == counter or n not in taken)

    def _elements(self, loop: Node) -> list[Node]:
        found = [e for e in self.view.elements(field(loop, "body")) if self._is_tile(e)]
        if {self._place(e)[0] for e in found} != set(self.shared):
            raise Refused("a tile is not read")
        return found

    def _element(self, node: Node, stored: dict[str, _Stored], joined: JoinedLoops, guards: list[str]) -> str:
        """The element of global memory that one of a tile is."""
        name, indices = self._indices(node)
        put, given = stored[name], {}
        for axis, index in zip(put.axes, indices, strict=True):
            if self.axis(index) == axis:
                continue
            if index.strip() != joined.counter:
                raise Refused("a tile is read at other places than rows and columns of its threads")
            given[axis] = index.strip()
        if len(given) != 1:
            raise Refused("a tile is read at other places than rows and columns of its threads")
        axis = next(iter(given))
        if self._number(f"blockDim.{axis}") != joined.depth:
            raise Refused("a tile is not as wide as its block")
        guards += [self._moved(g, axis, joined) for g in put.guards]
        return self._moved(put.value, axis, joined)

    def _moved(self, text: str, axis: str, joined: JoinedLoops) -> str:
        """A stored expression, said by the thread that reads it, with both loops as one."""
        mine = {n for n, a in self.threads.items() if a == axis}
        for one in (d for n in self.before for d in self._declared(n)):
            rests = WORD.findall(self.view.code(one.value)) if one.value is not None else []
            on = one.value is not None and re.search(rf"threadIdx\s*\.\s*{axis}\b", self.view.code(one.value))
            if one.name not in mine and one.name in WORD.findall(text) and (on or mine & set(rests)):
                raise Refused("a tile is filled by the thread's own row or column")
        text = re.sub(rf"threadIdx\s*\.\s*{axis}\b", joined.counter, text)
        return joined.at(renamed(text, dict.fromkeys(mine, joined.counter)))

    def _bound(self, variable: str, step: int, depth: int, whole: str) -> str:
        """The condition of the one loop."""
        assert self.loop is not None
        condition = field(self.loop, "condition")
        if operator_of(condition) != "<" or self.view.code(unwrapped(field(condition, "left"))) != variable:
            raise Refused("the loop over tiles does not count up to a bound")
        right = self._tiles(unwrapped(field(condition, "right")))
        if step == depth:
            return f"{whole} < {self.view.written(right)}"
        if right.type == "binary_expression" and operator_of(right) == "/":
            by = self._number(squeezed(self.view.code(unwrapped(field(right, "right")))))
            top = unwrapped(field(right, "left"))
            if by == depth and top.type in ("identifier", "number_literal", "field_expression"):
                return f"{whole} < {self.view.written(top)}"
        raise Refused("how many tiles there are is not understood")

    def _tiles(self, node: Node) -> Node:
        """What a number of tiles was declared as."""
        declared = {d.name: d.value for n in self.before for d in self._declared(n)}
        value = declared.get(self.view.code(node)) if node.type == "identifier" else None
        return unwrapped(value) if value is not None else node


def _conjuncts(node: Node) -> list[Node]:
    node = unwrapped(node)
    if node.type == "binary_expression" and operator_of(node) == "&&":
        return [*_conjuncts(field(node, "left")), *_conjuncts(field(node, "right"))]
    return [node]
