# SPDX-License-Identifier: Apache-2.0
"""Writes a loop over shared operands anew: tiles of them in shared memory, several outputs a thread in registers."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import holds
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.base import RewriteResult
from warplens_tools.rewrite.common.declared import Declared, declared_in, unqualified
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.operand_tiles import Operand, Product, State
from warplens_tools.rewrite.common.ragged import CAVEAT, RaggedLoop
from warplens_tools.rewrite.common.reading import (
    WORD,
    View,
    field,
    operator_of,
    renamed,
    statements,
    substituted,
)
from warplens_tools.rewrite.common.sizes import extent_on_host
from warplens_tools.rewrite.common.style import Style, guarded, indented, zero
from warplens_tools.rewrite.common.tile_sides import Shape, Side, fitting, leaving, sides_of, tile_name
from warplens_tools.text import TextEdit

#: Bytes by which rows of a tile that is written across are padded: neighbours then fall into other banks, and
#: rows stay aligned for 16-byte reads.
_PADDING_BYTES = 16
#: Longer tiles are unrolled in part: code that outgrows the instruction cache costs more than it saves.
_MOST_UNROLLED, _UNROLLED = 32, 8


class TileWriter:
    """The new text of one kernel, and of its launches."""

    def __init__(self, view: View, product: Product, launches: Launches, shape: Shape) -> None:
        shape = fitting(product, shape)
        self.view, self.product, self.launches, self.shape = view, product, launches, shape
        self.style = Style(view)
        self.outputs = product.outputs
        self.depth = self.style.constant(
            f"k{shape.name or 'Tile'}Depth", str(shape.depth), f"steps of {product.variable} held at a time"
        )
        self.sides = self._sides()
        self.thread = self.style.local("thread") if len(self.sides) > 1 else "threadIdx.x"
        self.threads = " * ".join(s.threads for s in self.sides)
        variable = product.variable
        self.outer = self.style.local(f"{variable}0")
        self.inner = self.style.local(variable * 2 if len(variable) == 1 else f"{variable}_in_tile")
        self.counter = self.style.local("t")
        self.own = {id(o): self.style.local(f"own{o.array[:1].upper()}{o.array[1:]}") for o in product.kept}
        ragged = next((s for s in self.sides if s.axis.name == product.ragged), None)
        self.ragged = RaggedLoop(ragged, self.style.local(f"{product.ragged}Last")) if ragged else None
        self.tiles = {id(o): self.style.local(tile_name(o.array)) for o in product.operands}

    def _sides(self) -> list[Side]:
        return sides_of(self.view, self.product, self.launches, self.style, self.shape)

    def result(self, title: str, caveat: str) -> RewriteResult:
        """All edits."""
        view = self.view
        body = self._body()
        start, end = view.start(view.body), view.end(view.body)
        newline = view.text.newline
        text = f"{{{newline}{self.style.lines(body)}{newline}{self.style.margin}}}"
        edit = TextEdit(view.text.span(start, end), text)
        self._relaunch()
        edits = (self.style.constants(), edit, *self.launches.edits())
        return RewriteResult(edits, title=title, caveat=caveat or (CAVEAT if self.ragged else ""))

    # the launch

    def _relaunch(self) -> None:
        for launch in self.launches.read():
            grid, block = {}, {}
            for index, side in enumerate(self.sides):
                limit = extent_on_host(self.view, self.launches, launch, side.axis, side.limit)
                before = f" - {side.axis.offset}" if side.axis.offset else ""
                grid[index] = f"({limit}{before} + {side.tile} - 1) / {side.tile}"
                block[index] = side.threads
            self.launches.set(launch.grid, grid)
            self.launches.set(launch.block, block)

    # the kernel

    def _body(self) -> str:
        parts = [self._shared(), self._prologue(), self._states()]
        parts += [self._loop(), self._tail()]
        return "\n".join(p for p in parts if p)

    def _shared(self) -> str:
        lines = []
        for operand in self.product.operands:
            extents = f"[{self.depth}]"
            if operand.axis is not None:
                extents += f"[{self._side_of(operand).tile}{self._padding(operand)}]"
            lines.append(f"__shared__ {operand.element_type} {self.tiles[id(operand)]}{extents};")
        return "\n".join(lines)

    def _padding(self, operand: Operand) -> str:
        size = type_bytes(operand.element_type) or 4
        return f" + {max(_PADDING_BYTES // size, 1)}" if operand.along_loop and size <= 8 else ""

    def _side_of(self, operand: Operand) -> Side:
        return next(s for s in self.sides if s.axis.name == operand.axis)

    def _prologue(self) -> str:
        lines = [self._kept(d) for d in self.outputs.declared if self._is_uniform(d)]
        lines += [f"if (!({c})) return;" for c in self.outputs.uniform]
        if len(self.sides) > 1:
            x = self.sides[0]
            lines.append(f"const int {self.thread} = threadIdx.y * {x.threads} + threadIdx.x;")
        lines += [self._origin(side) for side in reversed(self.sides)]
        lines += [self.ragged.declaration()] if self.ragged else []
        return "\n".join([*lines, *leaving(self.view, self.outputs, self.sides)])

    def _origin(self, side: Side) -> str:
        """The first of the block's outputs along an axis of the launch."""
        offset = f" + {side.axis.offset}" if side.axis.offset else ""
        return f"const {unqualified(side.axis.type)} {side.first} = blockIdx.{side.letter} * {side.tile}{offset};"

    def _is_uniform(self, one: Declared) -> bool:
        states = {s.declared.name for s in self.product.states}
        is_counter = one.name == self.product.variable
        return not self.outputs.rests[one.name] and one.name not in states and not is_counter

    def _kept(self, one: Declared) -> str:
        value = one.text or (self.view.written(one.value) if one.value is not None else "")
        value = f" = {value}" if value else ""
        return f"{one.type} {one.stars}{one.name}{value};"

    def _states(self) -> str:
        lines: list[str] = []
        for state in self.product.states:
            lines += self._state(state)
        for operand in self.product.kept:
            lines += self._kept_operand(operand)
        return "\n".join(lines)

    def _kept_operand(self, operand: Operand) -> list[str]:
        """An element that the loop read again and again, read once for each of the thread's outputs."""
        side, name = self._side_of(operand), self.own[id(operand)]
        extent = f"[{side.outputs}] = {{}}" if side.outputs else "{}"
        load = self._declarations(operand.names, {side.axis.name})
        load.append(f"{self._inside([side])}{self._own_place(operand)} = {operand.written};")
        return [f"{operand.element_type} {name}{extent};", self._each("\n".join(load), [side])]

    def _own_place(self, operand: Operand) -> str:
        side = self._side_of(operand)
        return self.own[id(operand)] + (f"[{side.counter}]" if side.outputs else "")

    def _state(self, state: State) -> list[str]:
        one = state.declared
        sides = [s for s in reversed(self.sides) if s.axis.name in state.axes]
        extents = "".join(f"[{s.outputs}]" for s in sides if s.outputs)
        value = self.view.written(one.value) if one.value is not None else ""
        written = unqualified(one.type) if extents else one.type
        needs = self.view.names(one.value) if one.value is not None else frozenset()
        if not self.outputs.resting(needs):
            if not extents:
                return [f"{written} {one.stars}{one.name}{f' = {value}' if value else ''};"]
            if not value or re.fullmatch(r"0*\.?0*[fFuUlL]?", value):
                return [f"{written} {one.stars}{one.name}{extents}{' = {}' if value else ''};"]
        place = "".join(f"[{s.counter}]" for s in sides if s.outputs)
        if self._is_constant(one):
            return [
                f"{written} {one.stars}{one.name}{extents};",
                self._each(f"{one.name}{place} = {value};", sides),
            ]
        inner = [*self._declarations(needs, {s.axis.name for s in sides})]
        inner.append(f"{self._inside(sides)}{one.name}{place} = {value};" if value else "")
        start = f"{written} {one.stars}{one.name}{extents}{' = {}' if self.outputs.resting(needs) else ''};"
        if not extents:
            start = f"{unqualified(one.type)} {one.stars}{one.name}{{}};"
        return [start, self._each("\n".join(i for i in inner if i), sides)]

    def _is_constant(self, one: Declared) -> bool:
        """Whether a variable begins at what is the same for every output."""
        value = one.value
        uniform = value is not None and not self.outputs.resting(self.view.names(value))
        return value is not None and uniform and not any(self.view.elements(value))

    def _inside(self, sides: list[Side]) -> str:
        tests = " && ".join(f"{s.axis.name} < {s.limit}" for s in sides)
        return f"if ({tests}) "

    def _each(self, inner: str, sides: list[Side]) -> str:
        """Code for each output of the thread along the given axes."""
        loops = [s for s in sides if s.outputs]
        if not loops:
            return f"{{\n{indented(inner)}\n}}" if "\n" in inner else inner
        for side in reversed(loops):
            head = f"for (int {side.counter} = 0; {side.counter} < {side.outputs}; ++{side.counter}) {{"
            inner = f"#pragma unroll\n{head}\n{indented(inner)}\n}}"
        return inner

    def _declarations(self, names: frozenset[str], of: set[str] | None = None) -> list[str]:
        """The axes and what is worked out from them, as far as the names need them."""
        needed, every = set(names), [*self.outputs.declared, *self.product.locals]
        states = {s.declared.name for s in self.product.states} | {self.product.variable}
        kept = []
        for one in reversed(every):
            if (
                one.name in needed
                and one.name not in states
                and (one in self.product.locals or not self._is_uniform(one))
            ):
                kept.append(self._kept(one))
                needed |= frozenset(WORD.findall(one.text)) if one.text else self._names_of(one)
        axes = [s for s in reversed(self.sides) if s.axis.name in needed or (of and s.axis.name in of)]
        return [s.declaration() for s in axes] + kept[::-1]

    def _names_of(self, one: Declared) -> frozenset[str]:
        return self.view.names(one.value) if one.value is not None else frozenset()

    def _loop(self) -> str:
        product = self.product
        condition = renamed(self.view.written(product.condition), {product.variable: self.outer})
        written, first = unqualified(product.type), product.first
        if self.ragged:
            first, condition = self.ragged.first(first), self.ragged.condition(condition)
        lines = [f"for ({written} {self.outer} = {first}; {condition}; {self.outer} += {self.depth}) {{"]
        for operand in product.operands:
            lines.append(indented(self._load(operand)))
        lines += ["  __syncthreads();", indented(self._compute()), "  __syncthreads();", "}"]
        loop = "\n".join(lines)
        return f"{self._needed()}\n{indented(loop)}\n}}" if self.outputs.early else loop

    def _load(self, operand: Operand) -> str:
        product, t = self.product, self.counter
        tile, variable = self.tiles[id(operand)], product.variable
        written = unqualified(product.type)
        condition = self.view.written(product.condition)
        if (
            self.ragged
            and operand.axis == product.ragged
            and self.ragged.first(product.first) != product.first
        ):
            condition = f"{variable} >= {product.first} && {condition}"
        elif self.ragged and operand.axis != product.ragged:
            condition = self.ragged.condition(condition)
        depth, lines, place = self.depth, [], f"[{t}]"
        if operand.axis is None:
            count, k = depth, t
        else:
            side = self._side_of(operand)
            count = f"{side.tile} * {depth}" if operand.along_loop else f"{depth} * {side.tile}"
            k, r = (
                (f"{t} % {depth}", f"{t} / {depth}")
                if operand.along_loop
                else (f"{t} / {side.tile}", f"{t} % {side.tile}")
            )
            lines.append(f"{side.axis.type} {side.axis.name} = {side.first} + {r};")
            condition = f"{side.axis.name} < {side.limit} && {condition}"
            place = f"[{k}][{r}]"
        lines.append(f"{written} {variable} = {self.outer} + {k};")
        lines += [d for d in self._declarations(operand.names) if not self._is_axis(d)]
        fill = product.fill
        empty = zero(operand.element_type) if fill is None else self.view.written(fill)
        lines.append(f"{tile}{place} = {condition} ? {operand.written} : {empty};")
        head = f"for (int {t} = {self.thread}; {t} < {count}; {t} += {self.threads}) {{"
        return "\n".join([head, indented("\n".join(lines)), "}"])

    def _is_axis(self, declaration: str) -> bool:
        return any(declaration == s.declaration() for s in self.sides)

    def _compute(self) -> str:
        product = self.product
        kept = [n for n in product.body if not self._is_dead(n)]
        lines = [self._replaced(n) for n in kept]
        names = frozenset().union(*(self._left_names(n) for n in kept))
        own = {d.name for d in product.locals}
        head = self._declarations(names - own)
        inner = self._each("\n".join([*head, *lines]), list(reversed(self.sides)))
        steps, count = self._steps()
        condition = f"{self.inner} < {count}"
        unroll = "#pragma unroll" if self.shape.depth <= _MOST_UNROLLED else f"#pragma unroll {_UNROLLED}"
        start = f"{steps}{unroll}\nfor (int {self.inner} = 0; {condition}; ++{self.inner}) {{"
        known = f"{unqualified(product.type)} {product.variable} = {self.outer} + {self.inner};"
        uses = product.variable in names or any(product.variable in h for h in head)
        ahead = [known] if uses else []
        return "\n".join([start, *map(indented, [*ahead, *self._read_ahead()]), indented(inner), "}"])

    def _read_ahead(self) -> list[str]:
        """What is read of the tiles before a step's arithmetic; nothing where that reads them itself."""
        return []

    def _steps(self) -> tuple[str, str]:
        """How many steps of a tile are done: what declares it, and its name; all where the fill changes nothing."""
        product, depth = self.product, self.depth
        if product.zero_is_neutral or product.fill is not None:
            return "", depth
        bound = self.view.written(field(product.condition, "right"))
        is_plain = re.fullmatch(r"[\w.]+", bound)
        left = f"{bound} - {self.outer}" if is_plain else f"({bound}) - {self.outer}"
        left += " + 1" if operator_of(product.condition) == "<=" else ""
        steps = self.style.local("steps")
        return f"const int {steps} = {left} < {depth} ? {left} : {depth};\n", steps

    def _needed(self) -> str:
        """Whether any output of the block needs the loop, where some have their value without it."""
        tests = [f"{s.axis.name} < {s.limit}" for s in reversed(self.sides)] + list(self.outputs.others)
        tests += [f"!{self.view.written(field(n, 'condition'))}" for n in self.outputs.early]
        names = frozenset(WORD.findall(" ".join(tests)))
        needed = self.style.local("needed")
        inner = "\n".join(
            [
                *self._declarations(names, {s.axis.name for s in self.sides}),
                f"if ({' && '.join(tests)}) {needed} = true;",
            ]
        )
        start = f"bool {needed} = false;\n{self._each(inner, list(reversed(self.sides)))}"
        return f"{start}\nif (__syncthreads_or({needed})) {{"

    def _is_dead(self, statement: Node) -> bool:
        """An index that nothing needs any more once its elements come from tiles."""
        mine = [d for d in self.product.locals if d.statement.id == statement.id]
        if not mine or statement.type != "declaration":
            return False
        others = [n for n in self.product.body if n.id != statement.id and not self._is_index(n)]
        left = frozenset().union(*(self._left_names(n) for n in others)) if others else frozenset()
        return not {d.name for d in mine} & left and len(mine) == len(
            statement.children_by_field_name("declarator")
        )

    def _is_index(self, statement: Node) -> bool:
        return any(d.statement.id == statement.id for d in self.product.locals) and not any(
            p.start_byte >= statement.start_byte and p.end_byte <= statement.end_byte
            for o in self.product.operands
            for p in o.places
        )

    def _left_names(self, statement: Node) -> frozenset[str]:
        """The names that a statement still has when its operands come from tiles."""
        places = [p for o in (*self.product.operands, *self.product.kept) for p in o.places]
        found = set()
        stack = [statement]
        while stack:
            node = stack.pop()
            if any(p.id == node.id for p in places):
                continue
            if node.type == "identifier":
                found.add(self.view.code(node))
            stack += node.children
        return frozenset(found)

    def _replaced(self, statement: Node) -> str:
        found = []
        for operand in self.product.operands:
            found += [(p, self._in_tile(operand)) for p in operand.places if holds(statement, p)]
        for operand in self.product.kept:
            found += [(p, self._own_place(operand)) for p in operand.places if holds(statement, p)]
        return self.style.code(renamed(substituted(self.view, statement, found), self._instances()))

    def _in_tile(self, operand: Operand) -> str:
        """The element of an operand's tile that one output needs."""
        place = f"[{self.inner}]"
        if operand.axis is not None:
            place += f"[{self._side_of(operand).place()}]"
        return f"{self.tiles[id(operand)]}{place}"

    def _instances(self) -> dict[str, str]:
        """Each state's name for the output that is being worked on."""
        found = {}
        for state in self.product.states:
            sides = [s for s in reversed(self.sides) if s.axis.name in state.axes and s.outputs]
            if sides:
                found[state.declared.name] = state.declared.name + "".join(f"[{s.counter}]" for s in sides)
        return found

    def _after_early(self, lines: list[str]) -> list[str]:
        """The tail as what is left to do for outputs that got no value before the loop."""
        for node in reversed(self.outputs.early):
            condition = self.view.written(field(node, "condition"))
            inside = [
                self.style.code(self.view.written(n)) for n in statements(field(node, "consequence"))[:-1]
            ]
            lines = [f"if {condition} {{", *map(indented, inside), "} else {", *map(indented, lines), "}"]
        return lines

    def _tail(self) -> str:
        product = self.product
        ends = [*self.outputs.early, *product.tail]
        names = frozenset[str]().union(*(self.view.names(n) for n in ends))
        own = {d.name for n in product.tail if n.type == "declaration" for d in declared_in(self.view, n)}
        lines = [self.style.code(renamed(self.view.written(n), self._instances())) for n in product.tail]
        tests = [f"{s.axis.name} < {s.limit}" for s in reversed(self.sides)] + list(self.outputs.others)
        used = frozenset(re.findall(r"[A-Za-z_]\w*", " ".join(tests)))
        head = self._declarations((names | used) - own, {s.axis.name for s in self.sides})
        lines = self._after_early(lines)
        body = "\n".join([*head, guarded(" && ".join(tests), lines)])
        if not any(s.outputs for s in self.sides):
            return body
        return self._each(body, list(reversed(self.sides)))
