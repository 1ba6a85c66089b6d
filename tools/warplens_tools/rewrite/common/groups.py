# SPDX-License-Identifier: Apache-2.0
"""Groups of threads that share one piece of work, and how they join what each of them folded."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from warplens_tools.cuda.syntax.types import integer_type, vector_element
from warplens_tools.rewrite.common.reductions import NEUTRAL, Fold

_NAMES = {
    "+": "sum",
    "*": "product",
    "max": "max",
    "min": "min",
    "|": "or",
    "&": "and",
    "^": "xor",
    "||": "any",
    "&&": "all",
}
_HALF = re.compile(r"(?:__)?(?:nv_)?(?:half|bfloat16)2?\Z")
_FLOATING = {"float": ("fmaxf", "fminf"), "double": ("fmax", "fmin")}


_ALL_LANES = "0xffffffff"


class Style(msgspec.Struct, frozen=True):
    """How the file names and indents."""

    snake: bool
    unit: str
    newline: str = "\n"

    def function(self, *words: str) -> str:
        """A function's name: `warp_sum` or `warpSum`."""
        return "_".join(words) if self.snake else words[0] + "".join(w.capitalize() for w in words[1:])


def style_of(kernel_name: str, unit: str) -> Style:
    """The style of a file, by the name of a kernel."""
    return Style("_" in kernel_name or kernel_name.islower(), unit)


class Joined(msgspec.Struct, frozen=True):
    """Statements that join a variable over a group, and the helper functions that they call."""

    lines: tuple[str, ...]
    helpers: tuple[str, ...] = ()


def joined_value(fold: Fold, kind: str, first: str, second: str) -> str:
    """`first` folded with `second`, as an expression of the type `kind`."""
    if fold.operation in ("max", "min"):
        greater = fold.operation == "max"
        name = fold.function or _extreme(kind, greater=greater)
        return (
            f"{name}({first}, {second})"
            if name
            else f"{first} {'>' if greater else '<'} {second} ? {first} : {second}"
        )
    if fold.function and fold.operation in ("+", "*"):
        return f"{fold.function}({first}, {second})"
    return f"{first} {fold.operation} {second}"


def _extreme(kind: str, *, greater: bool) -> str:
    if kind in _FLOATING:
        return _FLOATING[kind][0 if greater else 1]
    if _HALF.match(kind):
        return ("__hmax" if greater else "__hmin") + ("2" if kind.endswith("2") else "")
    return ("max" if greater else "min") if integer_type(kind) is not None else ""


def neutral(fold: Fold, kind: str) -> str:
    """What changes nothing when it is folded, as a value of the type `kind`; "" where there is none."""
    value = NEUTRAL.get(fold.operation, "")
    if not value or value == "false":
        return value
    if kind == "float":
        return f"{value}.0f"
    if kind == "double":
        return f"{value}.0"
    if _HALF.match(kind):
        if kind.endswith("2"):
            return ""
        return f"__float2{'bfloat16' if 'bfloat' in kind else 'half'}({value}.0f)"
    return value if integer_type(kind) is not None else f"{kind}({value})"


def member_type(kind: str, place: str) -> str:
    """The type of `acc.x` for an `acc` of the type `kind`."""
    vector = vector_element(kind) if "." in place else None
    return vector[0] if vector is not None else ("" if "." in place else kind)


class Group:
    """Threads that share one piece of work. `lane` is the number of a thread in it, `width` how many there are."""

    lane = "lane"
    width = ""
    #: Makes what one of them wrote seen by the others.
    barrier = ""
    #: `width` is a constant.
    fixed = False

    def join(self, fold: Fold, kind: str, companion: str) -> Joined:
        """What leaves every thread of the group with the fold over all of them.

        `kind` is the variable's type, `companion` the type of what goes along with the best.
        """
        raise NotImplementedError


class WarpGroup(Group):
    """A warp, or an equal part of one."""

    fixed = True

    def __init__(self, style: Style, width: str, lane: str) -> None:
        self.style, self.width, self.lane = style, width, lane
        self.barrier = f"__syncwarp({part_mask(width)});"

    def _steps(self, lines: Sequence[str]) -> str:
        body = "\n".join(f"{self.style.unit}{line}" for line in lines)
        return f"for (int offset = {self.width} / 2; offset > 0; offset /= 2) {{\n{body}\n}}"

    def join(self, fold: Fold, kind: str, companion: str) -> Joined:
        """By exchanges between lanes."""
        if fold.operation == "best":
            lines = best_lines(fold, kind, companion, self.style.unit)
            mask = f"const unsigned mask = {part_mask(self.width)};"
            return Joined((self._steps([mask, *(line.replace(_ALL_LANES, "mask") for line in lines)]),))
        word = "warp" if "warp" in self.width.lower() else "lanes"
        name = self.style.function(word, _NAMES[fold.operation])
        helper = warp_helper(self.style, fold, kind, name, self.width)
        return Joined((f"{fold.place} = {name}({fold.place});",), (helper,))


def warp_helper(style: Style, fold: Fold, kind: str, name: str, width: str) -> str:
    """The function that folds a value over the lanes of a warp."""
    unit = style.unit
    lanes = _ALL_LANES if width == "32" else "mask"
    mask = "" if width == "32" else f"{unit}const unsigned mask = {part_mask(width)};\n"
    exchanged = f"__shfl_xor_sync({lanes}, value, offset)"
    if fold.operation in "+*|&^" and not fold.function:
        step = f"value {fold.operation}= {exchanged};"
    elif fold.operation in ("max", "min") and not (fold.function or _extreme(kind, greater=True)):
        sign = ">" if fold.operation == "max" else "<"
        step = f"const {kind} other = {exchanged};\n{unit * 2}if (other {sign} value) value = other;"
    else:
        step = f"value = {joined_value(fold, kind, 'value', exchanged)};"
    first = "16" if width == "32" else f"{width} / 2"
    return (
        f"__device__ {kind} {name}({kind} value) {{\n{mask}"
        f"{unit}for (int offset = {first}; offset > 0; offset /= 2) {{\n{unit * 2}{step}\n{unit}}}\n"
        f"{unit}return value;\n}}\n"
    )


def part_mask(width: str) -> str:
    """The lanes of a warp that a thread's part of it has; all of them where the width is 32."""
    return f"0xffffffffu >> (32 - {width}) << (threadIdx.x % 32 / {width} * {width})"


def best_lines(fold: Fold, kind: str, companion: str, unit: str) -> list[str]:
    """One exchange of a best value and its place; of equal ones the loop's order decides, as it did."""
    best, at, sign = fold.place, fold.companion, fold.comparison
    earlier = "<" if sign in (">", "<") else ">"
    strict = sign[0]
    return [
        f"const {kind} otherBest = __shfl_xor_sync(0xffffffff, {best}, offset);",
        f"const {companion} otherPlace = __shfl_xor_sync(0xffffffff, {at}, offset);",
        f"if (otherBest {strict} {best} || (otherBest == {best} && otherPlace {earlier} {at})) {{",
        f"{unit}{best} = otherBest;",
        f"{unit}{at} = otherPlace;",
        "}",
    ]


class BlockGroup(Group):
    """A whole block of whole warps."""

    barrier = "__syncthreads();"

    def __init__(self, style: Style, width: str, lane: str) -> None:
        self.style, self.width, self.lane = style, width, lane

    def join(self, fold: Fold, kind: str, companion: str) -> Joined:
        """By exchanges between lanes, then between warps through shared memory."""
        if fold.operation == "best":
            return self._best(fold, kind, companion)
        unit = self.style.unit
        word = _NAMES[fold.operation]
        inner, name = self.style.function("warp", word), self.style.function("block", word)
        empty = neutral(fold, kind)
        index = "threadIdx.x % 32" if empty else "threadIdx.x % 32 < warps ? threadIdx.x % 32 : 0"
        load = f"threadIdx.x % 32 < warps ? partial[{index}] : {empty}" if empty else f"partial[{index}]"
        if not empty and fold.operation in ("+", "*", "^"):
            raise ValueError(f"no neutral value of {kind}")
        helper = (
            f"__device__ {kind} {name}({kind} value) {{\n"
            f"{unit}__shared__ {kind} partial[32];\n"
            f"{unit}const int warps = (blockDim.x + 31) / 32;\n"
            f"{unit}value = {inner}(value);\n"
            f"{unit}if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;\n"
            f"{unit}__syncthreads();\n"
            f"{unit}value = {inner}({load});\n"
            f"{unit}__syncthreads();\n"
            f"{unit}return value;\n}}\n"
        )
        return Joined(
            (f"{fold.place} = {name}({fold.place});",),
            (warp_helper(self.style, fold, kind, inner, "32"), helper),
        )

    def _best(self, fold: Fold, kind: str, companion: str) -> Joined:
        unit = self.style.unit
        steps = "\n".join(f"{unit}{line}" for line in best_lines(fold, kind, companion, unit))
        exchange = f"for (int offset = 16; offset > 0; offset /= 2) {{\n{steps}\n}}"
        return Joined(
            (
                exchange,
                f"__shared__ {kind} bestOfWarp[32];",
                f"__shared__ {companion} placeOfWarp[32];",
                f"if ({self.lane} % 32 == 0) {{\n{unit}bestOfWarp[{self.lane} / 32] = {fold.place};\n"
                f"{unit}placeOfWarp[{self.lane} / 32] = {fold.companion};\n}}",
                "__syncthreads();",
                f"const int warp = {self.lane} % 32 < ({self.width} + 31) / 32 ? {self.lane} % 32 : 0;",
                f"{fold.place} = bestOfWarp[warp];",
                f"{fold.companion} = placeOfWarp[warp];",
                exchange,
            )
        )


class ColumnGroup(Group):
    """Threads of a block that have one `threadIdx.x`."""

    lane = "threadIdx.y"
    barrier = "__syncthreads();"

    def __init__(self, style: Style, parts: str, columns: str) -> None:
        self.style, self.width, self._columns = style, parts, columns

    def join(self, fold: Fold, kind: str, companion: str) -> Joined:
        """Through shared memory, each by itself in the order of the parts."""
        if fold.operation == "best":
            return self._best(fold, kind, companion)
        name, unit = self.style.function("column", _NAMES[fold.operation]), self.style.unit
        step = _folded("value", "partial[part][threadIdx.x]", fold, kind)
        helper = (
            f"__device__ {kind} {name}({kind} value) {{\n"
            f"{unit}__shared__ {kind} partial[{self.width}][{self._columns}];\n"
            f"{unit}partial[threadIdx.y][threadIdx.x] = value;\n"
            f"{unit}__syncthreads();\n"
            f"{unit}value = partial[0][threadIdx.x];\n"
            f"{unit}for (int part = 1; part < {self.width}; ++part) {{\n{unit * 2}{step}\n{unit}}}\n"
            f"{unit}__syncthreads();\n"
            f"{unit}return value;\n}}\n"
        )
        return Joined((f"{fold.place} = {name}({fold.place});",), (helper,))

    def _best(self, fold: Fold, kind: str, companion: str) -> Joined:
        unit, extents = self.style.unit, f"[{self.width}][{self._columns}]"
        others = best_lines(fold, kind, companion, unit)[2:]
        lines = [
            f"const {kind} otherBest = bestOfPart[part][threadIdx.x];",
            f"const {companion} otherPlace = placeOfPart[part][threadIdx.x];",
            *others,
        ]
        body = "\n".join(f"{unit}{line}" for line in lines)
        return Joined(
            (
                f"__shared__ {kind} bestOfPart{extents};",
                f"__shared__ {companion} placeOfPart{extents};",
                f"bestOfPart[threadIdx.y][threadIdx.x] = {fold.place};",
                f"placeOfPart[threadIdx.y][threadIdx.x] = {fold.companion};",
                "__syncthreads();",
                f"for (int part = 0; part < {self.width}; ++part) {{\n{body}\n}}",
                "__syncthreads();",
            )
        )


def _folded(value: str, other: str, fold: Fold, kind: str) -> str:
    """The statement that folds an expression into a variable."""
    if fold.operation in "+*|&^" and not fold.function:
        return f"{value} {fold.operation}= {other};"
    if fold.operation in ("max", "min") and not (fold.function or _extreme(kind, greater=True)):
        sign = ">" if fold.operation == "max" else "<"
        return f"if ({other} {sign} {value}) {value} = {other};"
    return f"{value} = {joined_value(fold, kind, value, other)};"
