# SPDX-License-Identifier: Apache-2.0
"""Block sizes as parameters: the extents of a launch, and all that has to change with them.

A block size is free where the kernel reads it (`blockDim`) and the grid is computed from it by division,
or where the kernel strides over its data by the grid or the block. Where the same number also stands in
the grid, the dynamic shared size, the launch bounds, a shared array's extent or `blockIdx.x * 256`, these
places change with it. Everything else that may depend on it is a reason to leave it alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tree_sitter import Node

from warplens_tools.cuda.values.bindings import Binding
from warplens_tools.tunable.constant_uses import Uses
from warplens_tools.tunable.parameter import (
    Answer,
    Kind,
    Place,
    Refusal,
    TunableParameter,
    neighbourhood,
    others,
    place,
)
from warplens_tools.tunable.source import AXES, NAME, Site, TunedKernel, Value, number

#: KernelPro's of occupancy (arXiv 2606.26453, table 9) is 13.3 % at 1.48x for the question of the block as a whole;
#: of its ten values or so, one at a time, each has a share, and all come after rewrites that fit.
KIND = Kind(
    "block",
    chance=0.05,
    gain=1.3,
    answers=(
        Answer("occupancy-block-size"),
        Answer("occupancy-registers", 0, 0.7),
        Answer("occupancy-shared-memory", 0, 0.7),
        Answer("wave-quantization", -1, 0.8),
        Answer("grid-too-small", -1, 0.8),
    ),
    useless_at="dram",
)
LITERAL = re.compile(r"\d+[uUlL]*\Z")
#: Whole warps, in steps that change how many blocks fit a multiprocessor.
_SIZES = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)


class Refused(Exception):  # noqa: N818 - control flow inside this room, not an error of the user's
    """The number is left alone; the message says why."""


class Follow(NamedTuple):
    """How a launch's grid goes with its block size: further places, and whether only divisors are safe."""

    places: tuple[Place, ...] = ()
    divisors_only: bool = False


class BlockSizes:
    """The block sizes of one kernel."""

    def __init__(self, kernel: TunedKernel, *, alone: bool = True) -> None:
        """Of a kernel that is tuned by itself; or, where it is not `alone`, as company of another."""
        self.kernel, self.file, self._alone = kernel, kernel.file, alone

    def parameters(self) -> Iterator[TunableParameter | Refusal]:
        """Literal block extents of the launches; extents that are constants of the file are not here."""
        for site in self.kernel.sites:
            if site.block is None:
                reason = (
                    f"the launch on line {site.launch.span.line} takes a block that is changed on the way"
                )
                yield Refusal("block", "block", reason)
                return
        for axis, letter in enumerate(AXES):
            try:
                found = self._literals(axis)
                if found:
                    yield self._parameter(axis, found)
            except Refused as refused:
                yield Refusal(f"block.{letter}", "block", str(refused))

    def _literals(self, axis: int) -> list[tuple[Site, Value]]:
        """The literal that every launch has on this axis; none where the axis is 1 or not a literal."""
        sites = self.kernel.sites
        extents = [(site, site.block[axis]) for site in sites if site.block and axis < len(site.block)]
        found = [(site, extent) for site, extent in extents if self.file.literal(extent.node) is not None]
        values = {self.file.literal(extent.node) for _, extent in found}
        if values <= {1}:
            return []
        if len(values) > 1 or len(found) < len(sites):
            raise Refused("its launches use different block sizes")
        return found

    def _parameter(self, axis: int, found: list[tuple[Site, Value]]) -> TunableParameter:
        value = self.file.literal(found[0][1].node) or 0
        places = [self.file.place(extent.node) for _, extent in found]
        variables = {variable for _, extent in found for variable in extent.through}
        company = self.company({v.name for v in variables}, axis) if self._alone else []
        names = self._variables(variables, {p.kernel.kernel.name for p, _ in company})
        in_body = self._tied_in_body(value, axis)
        # A template argument of that value stands in the body under the parameter's name.
        tied = bool(in_body) or any(self.template_places(site, value) for site, _ in found)
        follows = [self.follow_grid(site, axis, value, names, tied=tied) for site, _ in found]
        for site, _ in found:
            places += self._tied_at_launch(site, value)
        places += in_body + self._tied_bounds(value)
        for follow in follows:
            places += follow.places
        divisors = any(f.divisors_only for f in follows)
        domain = self.domain(axis, value, one_axis=self._is_one_axis(axis), divisors=divisors)
        for other, parameter in company:
            if parameter.value != value:
                raise Refused(f"{other.kernel.kernel.name} is launched with {parameter.value}")
            places += parameter.places
            domain = tuple(v for v in domain if v in parameter.domain)
        if not domain:
            raise Refused("no other size is legal")
        return TunableParameter(f"block.{AXES[axis]}", "block", value, domain, tuple(sorted(set(places))))

    def _is_one_axis(self, axis: int) -> bool:
        return axis == 0 and all(site.launch.block_value[1:] == (1, 1) for site in self.kernel.sites)

    def domain(self, axis: int, value: int, *, one_axis: bool, divisors: bool) -> tuple[int, ...]:
        """Sizes that the card and the kernel's own code allow on one axis."""
        warp = self.kernel.limits.warp_size
        whole_warps = one_axis and value % warp == 0
        values = (*_SIZES, *neighbourhood(value, low=32)) if whole_warps else neighbourhood(value)
        top, halves = self._largest(axis, value), self.kernel.uses(axis).halves
        allowed = (
            v
            for v in values
            if v <= top
            and (not whole_warps or v % warp == 0)
            and (not halves or v & (v - 1) == 0)
            and (not divisors or value % v == 0)
        )
        return others(allowed, value)

    def follow_grid(self, site: Site, axis: int, value: int, names: set[str], *, tied: bool) -> Follow:
        """How the grid of one launch goes with a block extent held by `names` or by the bare number.

        Raises:
            Refused: the data would no longer be covered.
        """
        uses, letter = self.kernel.uses(axis), AXES[axis]
        if not (uses.reads_block or tied):
            raise Refused(f"the kernel never reads blockDim.{letter}: its size is fixed in its code")
        free = uses.strides_by_grid or (uses.strides_by_block and not uses.numbers_globally)
        free = free or (tied and self.kernel.steps_by(names))
        if site.grid is None or axis >= len(site.grid):
            if free:
                return Follow()
            line = site.launch.span.line
            no_extent = f"the grid has no {letter} extent that follows it"
            raise Refused(
                f"the grid on line {line} is changed on the way" if site.grid is None else no_extent
            )
        extent = site.grid[axis]
        # A constant grid is counted again after the change (`extract.illegal`), a computed one cannot be.
        exact = not free and site.launch.grid_value[axis] is None
        rounds_up = self.file.rounds_up(extent.node)
        behind = {b.name for b in extent.through} | self.file.definitions(extent.node).keys()
        if names & behind:
            return Follow(divisors_only=exact and not rounds_up)
        follow = self._repeated_in_grid(extent.node, value, exact=exact)
        if follow is None and not free:
            grid = self.file.tree.code_of(extent.node)
            raise Refused(f"the grid `{grid}` does not follow from it")
        return follow or Follow()

    def _repeated_in_grid(self, grid: Node, value: int, *, exact: bool) -> Follow | None:
        """The number and its predecessor in `(n + 255) / 256`; None where nothing divides by it."""
        tokens = [(n, v) for n, v in self.file.literals(grid) if v in (value, value - 1)]
        if value <= 2 or not any(v == value and self.file.divides(grid, n) for n, v in tokens):
            return None
        rounds_up = any(v == value - 1 for _, v in tokens) or self.file.rounds_up(grid)
        places = tuple(self.file.place(n, v - value) for n, v in tokens)
        return Follow(places, divisors_only=exact and not rounds_up)

    def company(self, names: set[str], axis: int) -> list[tuple[BlockSizes, TunableParameter]]:
        """Other kernels whose launches depend on the same names, with their own size on that axis.

        Raises:
            Refused: one of them cannot have another size.
        """
        found: dict[str, tuple[BlockSizes, TunableParameter]] = {}
        for site in self.file.sites:
            kernel = self.file.model.kernel(site.launch.kernel_name)
            if site in self.kernel.sites or kernel is None or not names & site.names or kernel.name in found:
                continue
            other = BlockSizes(TunedKernel(self.file, kernel, self.kernel.limits), alone=False)
            try:
                extents = other._literals(axis)
                if extents:
                    found[kernel.name] = (other, other._parameter(axis, extents))
            except Refused as refused:
                raise Refused(f"{kernel.name} is launched with it, where {refused}") from refused
        return list(found.values())

    def _variables(self, variables: Iterable[Binding], company: set[str]) -> set[str]:
        """Names of host variables between the launches and the literal, each used for nothing else."""
        variables = list(variables)
        for variable in variables if self._alone else ():
            reason = Uses(self.kernel, company).of_variable(variable)
            if reason:
                raise Refused(f"it is `{variable.name}`, and {reason}")
        return {variable.name for variable in variables}

    def _tied_in_body(self, value: int, axis: int) -> list[Place]:
        """Places in the kernel that repeat the number: array extents and `blockIdx.x * 256` change with it."""
        shared = (array for array in self.kernel.kernel.arrays if array.space == "shared")
        extents = [self.file.range(span) for array in shared for span in array.extent_spans]
        places: list[Place] = []
        for node, found in self.kernel.literals:
            if found not in (value, value - 1, 2 * value) and not (found * 2 == value and found >= 16):
                continue
            is_extent = any(low <= node.start_byte and node.end_byte <= high for low, high in extents)
            if found != value or not (is_extent or self.kernel.numbers_blocks(node, axis)):
                line = self.file.line(node.start_byte)
                raise Refused(f"the kernel has {found} on line {line}, which may depend on it")
            places.append(self.file.place(node))
        return places

    def _tied_at_launch(self, site: Site, value: int) -> list[Place]:
        """The number in the dynamic shared size changes with it; as an argument of the kernel it is a refusal."""
        listed = site.call.child_by_field_name("arguments")
        for argument in listed.named_children if listed is not None else ():
            if any(found == value for _, found in self.file.literals(argument)):
                raise Refused(f"the kernel is also passed `{self.file.tree.text_of(argument)}`")
        places = self.template_places(site, value)
        for node, found in self.file.literals(site.shared.node) if site.shared is not None else ():
            if found == value:
                places.append(self.file.place(node))
            elif found > value and site.shared is not None:
                shared = self.file.tree.code_of(site.shared.node)
                raise Refused(f"the dynamic shared size `{shared}` may depend on it")
        return places

    def template_places(self, site: Site, value: int) -> list[Place]:
        """Template arguments of a launch that are this number."""
        return [self.file.place(n) for n in site.template_arguments if self.file.literal(n) == value]

    def _tied_bounds(self, value: int) -> list[Place]:
        bounds = self.kernel.kernel.launch_bounds
        written = bounds.max_threads.strip() if bounds is not None and bounds.span is not None else ""
        if bounds is None or bounds.span is None or not LITERAL.match(written) or number(written) != value:
            return []
        start, end = self.file.range(bounds.span)
        found = re.compile(rf"\b{value}(?=[uUlL]*\b)").search(self.file.code, start, end)
        return [place(self.file.text, found.start(), found.end())] if found else []

    def _largest(self, axis: int, value: int) -> int:
        """The most threads that the card, the launch bounds and per-warp shared arrays allow."""
        top, bounds = self.kernel.limits.max_threads_per_block, self.kernel.kernel.launch_bounds
        if bounds is not None and bounds.max_threads_value and not self._tied_bounds(value):
            top = min(top, bounds.max_threads_value)
        tied = {p.span for p in self._tied_in_body(value, axis)}
        for array in self.kernel.kernel.arrays:
            fixed = array.space == "shared" and not array.dynamic and array.sizes and array.sizes[-1]
            if fixed and LITERAL.match(array.extents[-1]) and not tied & set(array.extent_spans):
                # One element a thread, or one a warp: more threads than that would write past its end.
                size = array.sizes[-1] or 0
                room = size if size >= value else size * self.kernel.limits.warp_size
                top = min(top, room) if room >= value else top
        return top


def names_in(text: str) -> set[str]:
    """The last parts of the names in an expression's text."""
    return {name.rsplit("::", 1)[-1] for name in NAME.findall(text)}
