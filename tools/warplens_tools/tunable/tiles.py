# SPDX-License-Identifier: Apache-2.0
"""Constants of the file and template arguments as parameters: tiles, and block sizes held by a name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from warplens_tools.cuda.model import Constant
from warplens_tools.tunable.block_sizes import LITERAL, BlockSizes, Refused, names_in
from warplens_tools.tunable.constant_uses import Uses
from warplens_tools.tunable.parameter import (
    Answer,
    Kind,
    ParameterKind,
    Place,
    Refusal,
    TunableParameter,
    neighbourhood,
    others,
    place,
)
from warplens_tools.tunable.source import AXES, TunedKernel, number

#: Chance and gain are KernelPro's of tiling (arXiv 2606.26453, table 9: 9.3 % at 1.42x).
TILE = Kind(
    "tile",
    chance=0.093,
    gain=1.42,
    answers=(
        Answer("occupancy-shared-memory", -1, 0.8),
        Answer("missing-cache-reuse", 1, 0.5),
        Answer("low-ilp", 1, 0.5),
    ),
)
#: A constant that a rewrite has brought, with values that are known to work: its first one is a guess for any card and
#: size, so that the others are what to try next on a version that it made faster.
BROUGHT = Kind("brought", chance=0.3, gain=1.3, answers=TILE.answers)
TEMPLATE_ARGUMENT = Kind("template_argument", chance=0.093, gain=1.42, answers=TILE.answers)
#: A loop step, an index made of `blockIdx`, an unroll factor: what a tile is, unlike a plain factor.
_SHAPES = r"\+=\s*(?:\w+::)*{0}\b|blockIdx\.[xyz]\s*\*\s*\(?\s*(?:\w+::)*{0}\b|#pragma unroll\s*\(?\s*{0}\b"
_DIGITS = re.compile(r"\d+")


_NUMBERED = re.compile(r"\d+\Z")


def canonical(name: str) -> str:
    """A constant's name without its style: `kItemsPerThread`, `ITEMS_PER_THREAD` and `kItemsPerThread2` are one."""
    bare = _NUMBERED.sub("", name).replace("_", "")
    prefixed = bare[:1] == "k" and bare[1:2].isupper()
    return (bare[1:] if prefixed else bare).lower()


class Tiles:
    """The named numbers that shape one kernel's tiles or its block."""

    def __init__(self, kernel: TunedKernel, ranges: Mapping[str, Sequence[int]] | None = None) -> None:
        """`ranges` are of constants that a rewrite has brought, by `canonical` name."""
        self.kernel, self.file, self.blocks = kernel, kernel.file, BlockSizes(kernel)
        self._ranges = ranges or {}

    def parameters(self) -> Iterator[TunableParameter | Refusal]:
        """Constants with a literal value."""
        for constant in self.file.model.constants:
            start, end = self.file.range(constant.span)
            declared = self._ranges.get(canonical(constant.name))
            if declared is not None:
                if constant.value is not None and LITERAL.match(constant.text.strip()):
                    yield self._declared(constant, declared)
                continue
            if not LITERAL.match(constant.text.strip()) or self.file.tree.function_at(start, end) is not None:
                continue
            axes = self._axes(constant.name)
            if constant.value is None or constant.value < 2 or not (axes or self._shapes(constant.name)):
                continue
            try:
                yield self._parameter(constant, axes)
            except Refused as refused:
                yield Refusal(constant.name, "block" if axes else "tile", str(refused))

    def template_arguments(self) -> Iterator[TunableParameter | Refusal]:
        """Integer template arguments at the kernel's launches that are not its block size."""
        sites = self.kernel.sites
        for index, argument in enumerate(sites[0].template_arguments if sites else ()):
            value = self.file.literal(argument)
            if value is None or value < 2 or any(value in site.launch.block_value for site in sites):
                continue  # One that is the block size changes with the block.
            name = f"template argument {index + 1}"
            same = [
                s
                for s in sites
                if [*map(self.file.literal, s.template_arguments)][index : index + 1] == [value]
            ]
            line = self._repeated(value)
            if len(same) < len(sites):
                yield Refusal(name, "template_argument", "its launches use different values")
            elif line:
                reason = f"host code has {value} on line {line}, which may depend on it"
                yield Refusal(name, "template_argument", reason)
            else:
                places = tuple(p for site in sites for p in self.blocks.template_places(site, value))
                domain = neighbourhood(value, high=256, octaves=2)
                yield TunableParameter(name, "template_argument", value, domain, places)

    def _declared(self, constant: Constant, values: Sequence[int]) -> TunableParameter:
        """A constant whose range is known from the rewrite that brought it."""
        value = constant.value or 0
        return TunableParameter(
            constant.name, "brought", value, others(values, value), (self._spot(constant),)
        )

    def _spot(self, constant: Constant) -> Place:
        digits = _DIGITS.search(self.file.code, self.file.range(constant.value_span)[0])
        assert digits is not None
        assert number(digits[0]) == constant.value
        return place(self.file.text, *digits.span())

    def _parameter(self, constant: Constant, axes: tuple[int, ...]) -> TunableParameter:
        value = constant.value or 0
        if sum(c.name == constant.name for c in self.file.model.constants) > 1:
            raise Refused("it has several definitions")
        reason = Uses(self.kernel).beyond(constant.name, self.file.range(constant.span))
        if reason:
            raise Refused(reason)
        domain = self._block_domain(constant.name, value, axes) if axes else neighbourhood(value)
        kind: ParameterKind = "block" if axes else "tile"
        return TunableParameter(constant.name, kind, value, domain, (self._spot(constant),))

    def _block_domain(self, name: str, value: int, axes: tuple[int, ...]) -> tuple[int, ...]:
        """Values of a constant that sets block extents; the body may use the name instead of blockDim."""
        names = self._derived(name)
        named = bool(names & self.kernel.names)
        self._no_bare_copy(value)
        sites, limits = self.kernel.sites, self.kernel.limits
        follows = [self.blocks.follow_grid(s, a, value, names, tied=named) for s in sites for a in axes]
        divisors = any(follow.divisors_only for follow in follows)
        if axes == (0,) and not named and all(s.launch.block_value[1:] == (1, 1) for s in sites):
            return self.blocks.domain(0, value, one_axis=True, divisors=divisors)
        domain = neighbourhood(value, high=limits.max_threads_per_block)
        halves = any(self.kernel.uses(axis).halves for axis in axes)
        allowed = (v for v in domain if (not divisors or value % v == 0) and (not halves or v & (v - 1) == 0))
        return others(allowed, value)

    def _derived(self, name: str) -> set[str]:
        """The constant and those defined by it: `THREADS` as (TILE * TILE) for `TILE`."""
        names = {name}
        for constant in self.file.model.constants:
            if names & names_in(constant.text):
                names.add(constant.name)
        return names

    def _no_bare_copy(self, value: int) -> None:
        """Refuse where the kernel also spells the number out: which of the two is meant cannot be told."""
        for node, found in self.kernel.literals:
            if found == value and value >= 16:
                raise Refused(f"the kernel also has {value} on line {self.file.line(node.start_byte)}")

    def _axes(self, name: str) -> tuple[int, ...]:
        """Axes of the kernel's blocks whose extent depends on the name."""
        blocks = [site.block for site in self.kernel.sites if site.block is not None]
        return tuple(
            axis
            for axis in range(len(AXES))
            if any(axis < len(block) and name in self.file.definitions(block[axis].node) for block in blocks)
        )

    def _shapes(self, name: str) -> bool:
        arrays = (array for array in self.kernel.kernel.arrays if array.space == "shared")
        derived = self._derived(name)
        if any(derived & names_in(extent) for array in arrays for extent in array.extents):
            return True
        if self._divides_grid(name):
            return True
        start, end = self.file.range(self.kernel.kernel.span)
        return re.search(_SHAPES.format(re.escape(name)), self.file.code[start:end]) is not None

    def _divides_grid(self, name: str) -> bool:
        """Whether a grid is divided by it: items or outputs of a thread. The width of a vector is fixed by its type."""
        grids = [self.file.tree.code_of(part.node) for site in self.kernel.sites for part in site.grid or ()]
        start, end = self.file.range(self.kernel.kernel.span)
        word = re.escape(name)
        is_vector = re.search(rf"alignas[^;]*\b{word}\b", self.file.code[start:end]) is not None
        return not is_vector and any(re.search(rf"/\s*{word}\b", grid) for grid in grids)

    def _repeated(self, value: int) -> int:
        """A line of host code, outside the template arguments, that has the number; 0 if none."""
        for site in self.kernel.sites:
            own = {argument.start_byte for argument in site.template_arguments}
            for node, found in self.file.literals(site.host or self.file.tree.root):
                if found == value and node.start_byte not in own:
                    return self.file.line(node.start_byte)
        return 0
