# SPDX-License-Identifier: Apache-2.0
"""array-for-block

Let a block work together on the array that each of its threads had for itself.

An array of hundreds of elements a thread, as the prices at the end of a binomial tree, does not fit into registers:
it lies in local memory, and all threads of the card read and write their own all the time. A block can keep one such
array in shared memory and share the loops over it. An element that is made of itself and of later ones is worked out
by all threads before any of them writes.

```cuda
#define STEPS 256
__global__ void binomial(const float* start, float* price, float up, float p, float strike, int n) {
  int option = blockIdx.x * blockDim.x + threadIdx.x;
  if (option >= n) return;
  float value[STEPS + 1];
  for (int i = 0; i <= STEPS; ++i) {
    value[i] = fmaxf(start[option] * powf(up, 2.0f * i - STEPS) - strike, 0.0f);
  }
  for (int t = STEPS - 1; t >= 0; --t) {
    for (int i = 0; i <= t; ++i) value[i] = p * value[i + 1] + (1.0f - p) * value[i];
  }
  price[option] = value[0];
}
void run(const float* start, float* price, float strike, int n) {
  binomial<<<(n + 127) / 128, 128>>>(start, price, 1.01f, 0.5f, strike, n);
}
```

```cuda
#define STEPS 256
__global__ void binomial(const float* start, float* price, float up, float p, float strike, int n) {
  int option = blockIdx.x;
  if (option >= n) return;
  __shared__ float value[STEPS + 1];
  for (int i = threadIdx.x; i <= STEPS; i += blockDim.x) {
    value[i] = fmaxf(start[option] * powf(up, 2.0f * i - STEPS) - strike, 0.0f);
  }
  __syncthreads();
  for (int t = STEPS - 1; t >= 0; --t) {
    for (int i0 = 0; i0 <= t; i0 += blockDim.x) {
      const int i = i0 + threadIdx.x;
      float valueNext;
      if (i <= t) {
        valueNext = p * value[i + 1] + (1.0f - p) * value[i];
      }
      __syncthreads();
      if (i <= t) value[i] = valueNext;
      __syncthreads();
    }
  }
  if (threadIdx.x == 0) price[option] = value[0];
}
void run(const float* start, float* price, float strike, int n) {
  binomial<<<n, 128>>>(start, price, 1.01f, 0.5f, strike, n);
}
```

Left alone: elements that follow from ones before them, as in an edit distance; loops that keep something besides; and
arrays of less than 64 elements, which registers may hold.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult
from warplens_tools.rewrite.block_per_row import lane_of, launch_rows, number_blocks
from warplens_tools.rewrite.common.counting import LOOPS, Counting, counting, strided
from warplens_tools.rewrite.common.numbering import Numbering
from warplens_tools.rewrite.common.opened import Opened, opening
from warplens_tools.rewrite.common.reading import JUMPS, concrete_type, squeezed, statements

#: Fewer elements are kept in registers.
_LEAST = 64
_STATIC_BYTES = 48 * 1024
_BARRIER = "__syncthreads();"


@opening
def apply(found: Opened) -> RewriteResult:
    """Deal the loops over each thread's array out to a block."""
    axes = [Numbering(found.reader, axis, found.launches.block_value(i)) for i, axis in enumerate("xy")]
    if not axes[0].numbered() or axes[1].threads:
        raise Refused("the kernel does not number its threads")
    if axes[0].strides():
        raise Refused("a thread goes on to other items")
    sharer = _Sharer(found, lane_of(axes[:1]))
    sharer.write()
    if launch_rows(found, {"x": number_blocks(found, axes[0])}):
        raise Refused("its blocks are no whole warps")
    return RewriteResult(found.all_edits(), title=f"Share {', '.join(sharer.arrays)} in a block")


class _Sharer:
    """The kernel's statements, as a block does them together."""

    def __init__(self, found: Opened, lane: str) -> None:
        self.reader, self.edits, self.kernel, self.lane = found.reader, found.edits, found.kernel, lane
        self.tree, self.expanded = found.reader.tree, found.reader.expanded
        local = [a for a in self.kernel.arrays if a.space == "local"]
        if not local or any(a.space == "shared" for a in self.kernel.arrays):
            raise Refused("the thread has no array of its own, or the block has one already")
        self.arrays = [a.name for a in local]
        sizes = [a.sizes[0] or 0 if len(a.sizes) == 1 else 0 for a in local]
        if min(sizes) < _LEAST:
            raise Refused("its array is small, or its size is not known")
        taken = sum(n * self._bytes(found, a.element_type) for n, a in zip(sizes, local, strict=True))
        if taken > _STATIC_BYTES:
            raise Refused("its array does not fit into shared memory")

    def _bytes(self, found: Opened, written: str) -> int:
        """Of an element; more than there is where the file does not tell."""
        kind = concrete_type(found.model, found.kernel, self.tree, self.tree.file, written)
        return type_bytes(kind) or _STATIC_BYTES + 1

    def _declaration(self, name: str) -> Node:
        for node in walk(self.reader.body):
            if node.type == "array_declarator" and self.code(node).startswith(f"{name}["):
                outer = node.parent
                listed = outer.children_by_field_name("declarator") if outer is not None else []
                if outer is not None and listed and all(n.type == "array_declarator" for n in listed):
                    return outer
        raise Refused("its array is not declared plainly")

    def code(self, node: Node) -> str:
        """A node's code."""
        return self.tree.code_of(node)

    def written(self, node: Node) -> str:
        """A node's text as the user wrote it."""
        start, end = self.edits.offsets(node)
        return self.edits.text.text[start:end]

    def write(self) -> None:
        """All edits of the kernel's body."""
        self._check_outputs()
        declared = {self.edits.offsets(self._declaration(name))[0] for name in self.arrays}
        for place in sorted(declared):
            self.edits.insert_at(place, "__shared__ ")
        if not self._sequence(statements(self.reader.body)):
            raise Refused("no loop goes over its array")

    def _stores(self, node: Node) -> list[tuple[Node, str, str]]:
        """The elements that are written, their arrays, and the memory."""
        return [(s.target, s.array, s.space) for s in self.reader.stores(node)]

    def _check_outputs(self) -> None:
        """That what is stored to memory is read nowhere else, where other threads would not wait for it.

        Raises:
            Refused: it is.
        """
        holders: dict[str, list[Node]] = {}
        for target, array, _ in self._stores(self.reader.body):
            outer = target
            while outer.parent is not None and outer.type != "expression_statement":
                outer = outer.parent
            holders.setdefault(array, []).append(outer)
        for array in holders.keys() - set(self.arrays):
            for node in self.reader.names.get(array, ()):
                if not any(holds(one, node) for one in holders[array]):
                    raise Refused("what it stores is read again")

    def _sequence(self, inside: list[Node]) -> int:
        """Statements one after the other; how many loops are dealt out."""
        return sum(self._one(node) for node in inside)

    def _one(self, node: Node) -> int:
        stored = self._stores(node)
        if self.reader.has_atomic(node):
            raise Refused("atomics are done for each thread")
        if not stored:
            self._read(node)
            return 0
        if node.type == "compound_statement":
            return self._sequence(statements(node))
        if node.type == "for_statement":
            return self._loop(node)
        if node.type == "expression_statement":
            self._once(node, stored)
            return 0
        if node.type == "if_statement" and node.child_by_field_name("alternative") is None:
            return self._branch(node)
        raise Refused("a statement stores in a way that is not understood")

    def _mentions(self, node: Node) -> bool:
        return any(n.type == "identifier" and self.code(n) in self.arrays for n in walk(node))

    def _read(self, node: Node) -> None:
        """All threads read an element before one of them goes on and changes it."""
        if node.type == "declaration" and any(
            n.type == "array_declarator" for n in node.children_by_field_name("declarator")
        ):
            return
        if not self._mentions(node):
            return
        if any(n.type in JUMPS for n in walk(node)):
            raise Refused("threads leave by what an element is")
        if self._comes_again(node):
            self.edits.after(node, _BARRIER)

    def _comes_again(self, node: Node) -> bool:
        """Whether an array is used behind a statement, or the statement in a loop."""
        outer = node.parent
        while outer is not None and outer.id != self.reader.body.id:
            if outer.type in LOOPS:
                return True
            outer = outer.parent
        behind = (n for name in self.arrays for n in self.reader.names.get(name, ()))
        return any(n.start_byte > node.end_byte for n in behind)

    def _branch(self, node: Node) -> int:
        inner, condition = (node.child_by_field_name(f) for f in ("consequence", "condition"))
        if condition is None or self._mentions(condition):
            raise Refused("an element decides what is stored")
        if inner is None or inner.type != "compound_statement":
            if inner is not None and not any(n.type in LOOPS for n in walk(inner)):
                self._once(node, self._stores(node))
                return 0
            raise Refused("a statement stores in a way that is not understood")
        return self._sequence(statements(inner))

    def _once(self, node: Node, stored: list[tuple[Node, str, str]]) -> None:
        """A statement that one thread does for its block."""
        if any(n.type in JUMPS for n in walk(node)):
            raise Refused("a statement stores in a way that is not understood")
        self.edits.guard([node], f"{self.lane} == 0")
        writes = any(array in self.arrays for _, array, _ in stored)
        if writes or (self._mentions(node) and self._comes_again(node)):
            self.edits.after(node, _BARRIER)

    def _loop(self, node: Node) -> int:
        loop = counting(self.expanded, node)
        inner = [n for n in walk(node) if n.type in LOOPS and n.id != node.id and self._stores(n)]
        if loop is not None and not inner:
            return self._deal(loop)
        body = node.child_by_field_name("body")
        heads = [node.child_by_field_name(f) for f in ("initializer", "condition", "update")]
        if any(n is not None and self._mentions(n) for n in heads):
            raise Refused("an element decides how long a loop is")
        if body is None or any(n.type in JUMPS for n in walk(node)):
            raise Refused("a loop is left early")
        return self._sequence(statements(body))

    # a loop over an array

    def _deal(self, loop: Counting) -> int:
        if loop.first is None or not loop.declared or loop.step != "1":
            raise Refused("a loop over its array does not count its elements one by one")
        self._check_own(loop)
        apart = self._is_ahead(loop)
        if apart:
            self._in_two_steps(loop)
        else:
            begin, by = strided(self.tree, loop, self.lane, "blockDim.x")
            self.edits.replace(loop.first, begin)
            self.edits.replace(loop.update, by)
            self.edits.after(loop.node, _BARRIER)
        return 1

    def _check_own(self, loop: Counting) -> None:
        """That an iteration leaves nothing but its own elements.

        Raises:
            Refused: it does.
        """
        if any(n.type in JUMPS - {"continue_statement"} for n in walk(loop.node)):
            raise Refused("a loop over its array is left early")
        for target, array, _ in self._stores(loop.body):
            plain = squeezed(self.code(target)) == f"{array}[{loop.variable}]"
            if array in self.arrays and not plain:
                raise Refused("an iteration writes another element than its own")
            if array not in self.arrays and not re.search(rf"\[.*\b{loop.variable}\b", self.code(target)):
                raise Refused("every iteration writes the same element")
        for node in walk(loop.body):
            place = node.child_by_field_name("left") if node.type == "assignment_expression" else None
            place = node.child_by_field_name("argument") if node.type == "update_expression" else place
            name = (
                next((n for n in walk(place) if n.type == "identifier"), None) if place is not None else None
            )
            if name is None or (place is not None and place.type == "subscript_expression"):
                continue
            if not self.reader.is_inside(self.reader.binding(name), loop.body):
                raise Refused("a loop over its array keeps something besides")

    def _is_ahead(self, loop: Counting) -> bool:
        """Whether an iteration reads elements that later ones write.

        Raises:
            Refused: it reads what earlier ones have written.
        """
        ahead = False
        stored = self._stores(loop.body)
        changed, own = {array for _, array, _ in stored}, {target.id for target, _, _ in stored}
        for node in walk(loop.body):
            if node.type != "subscript_expression" or node.id in own:
                continue
            array = self.code(node.children[0])
            listed = node.child_by_field_name("indices")
            index = squeezed(self.code(listed)).strip("[]") if listed is not None else ""
            if array not in changed or index == loop.variable:
                continue
            if array not in self.arrays:
                raise Refused("a loop reads and writes one buffer")
            sign = "-" if loop.downward else "+"
            further = rf"{loop.variable}\{sign}\d+" + (rf"|\d+\+{loop.variable}" if sign == "+" else "")
            if not re.fullmatch(further, index):
                raise Refused("an element follows from those before it")
            ahead = True
        return ahead

    def _in_two_steps(self, loop: Counting) -> None:
        """A block's width of elements at a time: all are worked out before one is written."""
        inside = statements(loop.body)
        last = inside[-1].named_children[0] if inside and inside[-1].type == "expression_statement" else None
        left = last.child_by_field_name("left") if last is not None else None
        right = last.child_by_field_name("right") if last is not None else None
        initial, condition = (loop.node.child_by_field_name(f) for f in ("initializer", "condition"))
        if last is None or left is None or right is None or initial is None or condition is None:
            raise Refused("an element is not worked out in one statement")
        if any(n.type != "declaration" for n in inside[:-1]) or loop.first is None:
            raise Refused("an element is not worked out in one statement")
        array, operator = self.code(left.children[0]), self.code(last.children[1])
        kind = next(a.element_type for a in self.kernel.arrays if a.name == array)
        at, next_ = self.edits.fresh_here(f"{loop.variable}0"), self.edits.fresh_here(f"{array}Next")
        written = re.split(rf"\b{loop.variable}\b", self.code(initial))[0].strip()
        sign, test = "-" if loop.downward else "+", self.written(condition)
        value = self.written(right)
        value = value if operator == "=" else f"{self.written(left)} {operator[:-1]} ({value})"
        unit, margin = self.edits.unit, self.edits.indent(loop.node)
        own = [self.written(n) for n in inside[:-1]]
        head = re.sub(rf"\b{loop.variable}\b", at, test)
        lines = [
            f"for ({written} {at} = {self.written(loop.first)}; {head}; {at} {sign}= blockDim.x) {{",
            f"{unit}const {written} {loop.variable} = {at} {sign} {self.lane};",
            f"{unit}{kind} {next_};",
            f"{unit}if ({test}) {{",
            *(f"{unit * 2}{one}" for one in [*own, f"{next_} = {value};"]),
            f"{unit}}}",
            f"{unit}{_BARRIER}",
            f"{unit}if ({test}) {self.written(left)} = {next_};",
            f"{unit}{_BARRIER}",
            "}",
        ]
        start, end = self.edits.offsets(loop.node)
        self.edits.cut(start, end)
        self.edits.insert_at(start, (self.edits.text.newline + margin).join(lines))


REWRITE = Rewrite(
    slug="array-for-block",
    title="Let a block work together on each thread's array",
    apply=apply,
    answers=("local-memory-array",),
    chance=0.5,
    gain=5.0,
)
