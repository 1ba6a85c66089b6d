# SPDX-License-Identifier: Apache-2.0
"""How much of a tiled loop one block and one thread do along each axis, and what the new kernel calls it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.operand_tiles import Product
from warplens_tools.rewrite.common.outputs import Axis, Outputs
from warplens_tools.rewrite.common.reading import View, squeezed
from warplens_tools.rewrite.common.sizes import limit_of
from warplens_tools.rewrite.common.style import Style

#: `col <= row` of two variables.
_ORDERED = re.compile(r"(\w+)\s*(<=?|>=?)\s*(\w+)")
#: Static shared memory that a block may have.
_STATIC_BYTES = 48 * 1024


class Shape(msgspec.Struct, frozen=True):
    """How much one block and one thread does; the fast axis first."""

    #: Threads of a block along each axis.
    threads: tuple[int, ...]
    #: Outputs of a thread along each axis.
    outputs: tuple[int, ...]
    #: Iterations of the loop whose operands are held at a time.
    depth: int
    #: What its constants are called, where not every value of theirs that others may have is one of its own.
    name: str = ""


class Side(msgspec.Struct, frozen=True):
    """One axis as the new kernel has it."""

    axis: Axis
    letter: str
    limit: str
    #: Names of the constants; "" for one output a thread.
    threads: str
    outputs: str
    tile: str
    #: Names of the block's first value of the axis, and of the counter of a thread's outputs.
    first: str
    counter: str

    def place(self) -> str:
        """Where in the tile the thread's output stands."""
        if not self.outputs:
            return f"threadIdx.{self.letter}"
        return f"threadIdx.{self.letter} * {self.outputs} + {self.counter}"

    def declaration(self) -> str:
        """The user's variable, for one output of the thread."""
        return f"{self.axis.type} {self.axis.name} = {self.first} + {self.place()};"


def sides_of(view: View, product: Product, launches: Launches, style: Style, shape: Shape) -> list[Side]:
    """The axes of the outputs, that of neighbouring ones first, with their constants and names.

    Raises:
        Refused: where an axis ends is not known.
    """
    several = any(n > 1 for n in shape.outputs)
    two = len(product.outputs.axes) > 1
    found = []
    for index, axis in enumerate(ordered(view, product)):
        threads, outputs, tile = _constants(style, shape, axis, index, two)
        found.append(
            Side(
                axis=axis,
                letter="xy"[index],
                limit=axis.limit or limit_of(view, launches, axis.letter),
                threads=threads,
                outputs=outputs,
                tile=tile,
                first=style.local(f"{axis.name}0"),
                counter=style.local("ji"[index] if two else "o") if several else "",
            )
        )
    return found


def _constants(style: Style, shape: Shape, axis: Axis, index: int, two: bool) -> tuple[str, str, str]:
    """Names of an axis's constants: threads of a block, outputs of a thread ("" where all have one), the tile."""
    suffix = "XY"[index] if two else ""
    along = f" along {axis.name}" if two else ""
    threads = style.constant(
        f"k{shape.name}Threads{suffix}", str(shape.threads[index]), f"threads of a block{along}"
    )
    if not any(n > 1 for n in shape.outputs):
        return threads, "", threads
    outputs = style.constant(
        f"k{shape.name}Outputs{suffix}", str(shape.outputs[index]), f"outputs of a thread{along}"
    )
    return threads, outputs, style.constant(f"k{shape.name}Tile{suffix}", f"{threads} * {outputs}")


def leaving(view: View, outputs: Outputs, sides: Sequence[Side]) -> Iterator[str]:
    """The lines by which a block without outputs leaves: one beyond the diagonal of a triangle, `col <= row`, or beyond
    what memory says that there is, which no launch could know.
    """
    if outputs.early:
        return
    named = {s.axis.name: s for s in sides}
    for condition in outputs.others:
        found = _ORDERED.fullmatch(condition)
        if found is not None and {found[1], found[3]} <= set(named):
            less, more = (found[1], found[3]) if found[2][0] == "<" else (found[3], found[1])
            low, high = named[less], named[more]
            yield f"if ({low.first} >= {high.first} + {high.tile}) return;"
    read = {d.name for d in outputs.declared if d.value is not None and "[" in view.code(d.value)}
    yield from (f"if ({s.first} >= {s.limit}) return;" for s in sides if s.limit in read)


def ordered(view: View, product: Product) -> list[Axis]:
    """The axes, that of neighbouring outputs first."""
    axes = list(product.outputs.axes)
    if len(axes) < 2:
        return axes
    for node in (e for n in product.tail for e in view.elements(n)):
        pointer = view.pointers.element(node) if node.type == "subscript_expression" else None
        offset = pointer.traced if pointer is not None else None
        if offset is not None and offset.coefficient(f"threadIdx.{axes[1].letter}") == 1:
            return axes[::-1]
    return axes


def fitting(product: Product, shape: Shape) -> Shape:
    """The shape with tiles that fit into a block's static shared memory."""
    pairs = zip(product.outputs.axes, shape.threads, shape.outputs, strict=True)
    extents = {axis.name: threads * outputs + 8 for axis, threads, outputs in pairs}
    row = sum(
        (type_bytes(o.element_type) or 16) * (extents[o.axis] if o.axis else 1) for o in product.operands
    )
    depth = shape.depth
    while depth > 1 and row * depth > _STATIC_BYTES:
        depth //= 2
    return msgspec.structs.replace(shape, depth=depth)


def tile_name(array: str) -> str:
    """What an array's tile is called."""
    plain = squeezed(array).replace(".", "_")
    return f"tile_{plain}" if "_" in plain else f"tile{plain[:1].upper()}{plain[1:]}"
