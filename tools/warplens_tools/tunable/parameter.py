# SPDX-License-Identifier: Apache-2.0
"""What a parameter of a kernel is: places in the text that hold one number, and the numbers it may be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from warplens_tools.text import SourceText, Span, TextEdit

ParameterKind = Literal["block", "tile", "brought", "unroll", "launch_bounds", "template_argument"]
#: Threads along x whose elements of four bytes are a sector of 32 bytes, the least that memory moves.
_SECTOR_THREADS = 8


class Answer(msgspec.Struct, frozen=True):
    """A finding that a change of a parameter may answer."""

    #: The finding's.
    slug: str
    #: Which way: 1 up, -1 down, 0 either.
    direction: int = 0
    #: How likely this parameter is the one to change, against the best answer to that finding (1).
    weight: float = 1.0


class Kind(msgspec.Struct, frozen=True):
    """What is known of all parameters of a kind before one was tried. Told by the module that finds them."""

    name: ParameterKind
    #: The chance that one change is right and faster where no finding asks for it, and by how much it then is.
    chance: float
    gain: float
    answers: tuple[Answer, ...] = ()
    #: The resource ("dram", "l2", "sm") that it cannot relieve: at its peak nothing is left to win; "" for none.
    useless_at: str = ""

    @property
    def rule(self) -> str:
        """What its hit rate is kept under."""
        return f"parameter:{self.name}"


class Place(msgspec.Struct, frozen=True, order=True):
    """Where a parameter's value stands: `prefix` and the value plus `offset` replace the span."""

    span: Span
    #: -1 for the 255 of `(n + 255) / 256`.
    offset: int = 0
    #: Put around the number, where there was none: ", " in `__launch_bounds__(256, 2)`.
    prefix: str = ""
    suffix: str = ""


class TunableParameter(msgspec.Struct, frozen=True):
    """One number that may change without changing what the kernel computes, as far as the text shows."""

    #: As the user knows it: a constant's name, "block.x", "unroll, line 12".
    name: str
    kind: ParameterKind
    #: 0 stands for none: a bare `#pragma unroll`, launch bounds without a minimum of blocks.
    value: int
    #: Other values to try, ascending, without the present one.
    domain: tuple[int, ...]
    #: All of them change together.
    places: tuple[Place, ...]
    #: What stands in the text for each value, in ascending order from 0; () where it is the number itself.
    words: tuple[str, ...] = ()

    def written(self, value: int) -> str:
        """A value as the text has it."""
        return self.words[value] if self.words else str(value)

    @property
    def spans(self) -> tuple[Span, ...]:
        """Where the value stands."""
        return tuple(place.span for place in self.places)


class Refusal(msgspec.Struct, frozen=True):
    """A number that looks tunable and is left alone, and why."""

    name: str
    kind: ParameterKind
    reason: str


class Template(msgspec.Struct, frozen=True):
    """A kernel's parameters, and what was left alone."""

    parameters: tuple[TunableParameter, ...] = ()
    refused: tuple[Refusal, ...] = ()


def edits_for(parameter: TunableParameter, value: int) -> tuple[TextEdit, ...]:
    """Edits that give a parameter another value."""
    return tuple(
        TextEdit(p.span, f"{p.prefix}{parameter.written(value + p.offset)}{p.suffix}")
        for p in sorted(set(parameter.places))
    )


def fills_sectors(parameter: TunableParameter, value: int) -> bool:
    """Whether with this value a row of a block's threads fills sectors of memory with elements of four bytes, or fills
    none as it is."""
    return parameter.name != "block.x" or value >= _SECTOR_THREADS or parameter.value < _SECTOR_THREADS


def skeleton(text: SourceText, parameters: Iterable[TunableParameter]) -> str:
    """A text with its parameters taken out: equal for texts that differ in their values alone."""
    cuts = sorted(
        (*text.offsets(place.span), parameter.name) for parameter in parameters for place in parameter.places
    )
    parts, at = list[str](), 0
    for start, end, name in cuts:
        parts += [text.text[at:start], f"\0{name}\0"]
        at = max(at, end)
    return "".join([*parts, text.text[at:]])


def place(text: SourceText, start: int, end: int, *, offset: int = 0, prefix: str = "") -> Place:
    """A place between two code-point offsets."""
    return Place(text.span(start, end), offset, prefix)


def others(values: Iterable[int], value: int) -> tuple[int, ...]:
    """A domain: distinct, ascending, without the present value."""
    return tuple(sorted(set(values) - {value}))


def neighbourhood(value: int, *, low: int = 1, high: int = 1024, octaves: int = 3) -> tuple[int, ...]:
    """Values at powers of two from `value` that stay whole numbers, within `low` to `high`."""
    up = [value << shift for shift in range(octaves + 1)]
    down = [value >> shift for shift in range(octaves + 1) if value % (1 << shift) == 0]
    return others((v for v in (*up, *down) if low <= v <= high), value)


class Geometry(msgspec.Struct, frozen=True):
    """Launch geometry a version brings along; None where it is the baseline's."""

    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    dynamic_shared_bytes: int | None = None
    #: False where host code computes a new one from what the text does not fix: only the rebuilt program
    #: knows it.
    known: bool = True
