"""Block sizes as parameters: the extents of a launch, and all that has to change with them.

A block size is free where the kernel reads it (`blockDim`) and the grid is computed from it by division,
or where the kernel strides over its data by the grid or the block. Where the same number also stands in
the grid, the dynamic shared size, the launch bounds, a shared array's extent or `blockIdx.x * 256`, these
places change with it. Everything else that may depend on it is a reason to leave it alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from warplens_tools.arch.gpu import Limits
from warplens_tools.cuda.model import Kernel
from warplens_tools.tunable.constant_uses import File, Site, other_use
from warplens_tools.tunable.host_code import Expression, leaf, names_behind
from warplens_tools.tunable.parameter import (
    Place,
    Refusal,
    TunableParameter,
    neighbourhood,
    others,
    place,
)

AXES = "xyz"
INTEGER = re.compile(r"(?<![\w.])(\d+)(?=[uUlL]*(?![\w.]))")
LITERAL = re.compile(r"\d+[uUlL]*\Z")
#: Whole warps, in steps that change how many blocks fit a multiprocessor.
_SIZES = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_ROUNDS_UP = re.compile(r"(?i)\w*(?:ceil|div|up)\w*\s*\(|-\s*1\b")


class Refused(Exception):  # noqa: N818 - control flow inside this room, not an error of the user's
    """The number is left alone; the message says why."""


class Follow(msgspec.Struct, frozen=True):
    """How a launch's grid goes with its block size: further places, and whether only divisors are safe."""

    places: tuple[Place, ...] = ()
    divisors_only: bool = False


class Body(msgspec.Struct, frozen=True):
    """How a kernel's code uses one axis of its block."""

    reads_block: bool
    #: Its elements are numbered by `blockIdx * blockDim`.
    numbers_globally: bool
    strides_by_grid: bool
    strides_by_block: bool
    halves: bool


def block_parameters(file: File, kernel: Kernel, limits: Limits) -> Iterator[TunableParameter | Refusal]:
    """Literal block extents of a kernel's launches; extents that are constants of the file are not here."""
    sites = file.of(kernel)
    for site in sites:
        if site.block is None:
            reason = f"the launch on line {site.launch.span.line} takes a block that is changed on the way"
            yield Refusal("block", "block", reason)
            return
    for axis in range(3):
        name = f"block.{AXES[axis]}"
        try:
            found = _literal_extent(sites, axis)
            if found is not None:
                yield _parameter(file, kernel, limits, axis, found)
        except Refused as refused:
            yield Refusal(name, "block", str(refused))


def _literal_extent(sites: tuple[Site, ...], axis: int) -> list[tuple[Site, Expression]] | None:
    """The literal that every launch has on this axis; None where the axis is 1 or not a literal."""
    found: list[tuple[Site, Expression]] = []
    for site in sites:
        if site.block is not None and axis < len(site.block):
            value = leaf(site.block[axis], site.host)
            if LITERAL.match(value.text):
                found.append((site, value))
    values = {number(value.text) for _, value in found}
    if not found or values == {1}:
        return None
    if len(values) > 1 or len(found) < len(sites):
        raise Refused("its launches use different block sizes")
    return found


def _parameter(
    file: File, kernel: Kernel, limits: Limits, axis: int, found: list[tuple[Site, Expression]]
) -> TunableParameter:
    value = number(found[0][1].text)
    places = [place(file.text, e.start, e.start + len(str(value))) for _, e in found]
    names: set[str] = set()
    for site, literal in found:
        names |= _variables_of(file, kernel, site, axis, literal)
    body_places = _tied_in_body(file, kernel, value, axis)
    # A template argument of that value stands in the body under the parameter's name.
    tied = bool(body_places) or any(template_places(file, site, value) for site, _ in found)
    follows = [follow_grid(file, kernel, site, axis, value, names, tied=tied) for site, _ in found]
    for site, _ in found:
        places += _tied_at_launch(file, site, value)
    places += body_places + _tied_bounds(file, kernel, value)
    for follow in follows:
        places += follow.places
    one_axis = all(site.launch.block_value[1:] == (1, 1) for site, _ in found) and axis == 0
    domain = block_domain(
        file, kernel, axis, value, limits, one_axis=one_axis, divisors=any(f.divisors_only for f in follows)
    )
    if not domain:
        raise Refused("no other size is legal")
    return TunableParameter(f"block.{AXES[axis]}", "block", value, domain, tuple(sorted(set(places))))


def block_domain(
    file: File, kernel: Kernel, axis: int, value: int, limits: Limits, *, one_axis: bool, divisors: bool
) -> tuple[int, ...]:
    """Sizes that the card and the kernel's own code allow on one axis."""
    top = _largest(file, kernel, axis, value, limits)
    body = read_body(file, kernel, axis)
    whole_warps = one_axis and value % limits.warp_size == 0
    values = (*_SIZES, *neighbourhood(value, low=32)) if whole_warps else neighbourhood(value)
    return others(
        (
            v
            for v in values
            if v <= top
            and (not whole_warps or v % limits.warp_size == 0)
            and (not body.halves or v & (v - 1) == 0)
            and (not divisors or value % v == 0)
        ),
        value,
    )


def follow_grid(
    file: File, kernel: Kernel, site: Site, axis: int, value: int, names: set[str], *, tied: bool
) -> Follow:
    """How the grid of one launch goes with a block extent held by `names` or by the bare number.

    Raises:
        Refused: the data would no longer be covered.
    """
    body = read_body(file, kernel, axis)
    if not (body.reads_block or tied):
        raise Refused(f"the kernel never reads blockDim.{AXES[axis]}: its size is fixed in its code")
    free = body.strides_by_grid or (body.strides_by_block and not body.numbers_globally)
    free = free or (tied and _strides_by(file, kernel, names))
    if site.grid is None:
        if free:
            return Follow()
        raise Refused(f"the grid on line {site.launch.span.line} is changed on the way")
    extent = site.grid[axis] if axis < len(site.grid) else None
    if extent is None:
        if free:
            return Follow()
        raise Refused(f"the grid has no {AXES[axis]} extent that follows it")
    grid = leaf(extent, site.host)
    # A constant grid is counted again after the change (`template.illegal`), a computed one cannot be.
    exact = not free and site.launch.grid_value[axis] is None
    divisors = exact and not _ROUNDS_UP.search(grid.text)
    if names & names_behind(extent, site.host, file.constant_texts):
        return Follow(divisors_only=divisors)
    tokens = [t for t in INTEGER.finditer(grid.text) if int(t[1]) in (value, value - 1)]
    divides = re.search(rf"/\s*\(?\s*{value}\b|(?i:ceil|div|up)\w*\s*\(.*\b{value}\b", grid.text)
    if divides and value > 2:
        places = tuple(
            place(file.text, grid.start + t.start(1), grid.start + t.end(1), offset=int(t[1]) - value)
            for t in tokens
        )
        rounds_up = any(int(t[1]) == value - 1 for t in tokens) or bool(_ROUNDS_UP.search(grid.text))
        return Follow(places, divisors_only=exact and not rounds_up)
    if free:
        return Follow()
    raise Refused(f"the grid `{grid.text}` does not follow from it")


def _strides_by(file: File, kernel: Kernel, names: set[str]) -> bool:
    """Whether a loop of the kernel steps by one of the names: the block walks its tile by itself."""
    start, end = file.range(kernel.body)
    return any(re.search(rf"\+=\s*(?:\w+::)*{re.escape(n)}\b", file.code[start:end]) for n in names)


def read_body(file: File, kernel: Kernel, axis: int) -> Body:
    """How the kernel's body uses one axis of its block."""
    start, end = file.range(kernel.body)
    code, a = file.code[start:end], AXES[axis]
    cast = r"(?:\([\w:\s]+\)\s*)?\(?\s*"
    numbers = (
        rf"blockIdx\.{a}\s*\)?\s*\*\s*{cast}blockDim\.{a}|blockDim\.{a}\s*\)?\s*\*\s*{cast}"
        rf"(?:static_cast<[^>]*>\s*\()?blockIdx\.{a}|mul24\(\s*block(?:Idx|Dim)\.{a}\s*,\s*block(?:Idx|Dim)\.{a}"
    )
    return Body(
        reads_block=re.search(rf"\bblockDim\.{a}\b", code) is not None,
        numbers_globally=re.search(numbers, code) is not None,
        strides_by_grid=re.search(rf"\bgridDim\.{a}\b", code) is not None,
        strides_by_block=re.search(rf"\+=\s*blockDim\.{a}\b", code) is not None,
        halves=re.search(rf"\bblockDim\.{a}\s*(?:/\s*2|>>\s*1)", code) is not None,
    )


def number(literal: str) -> int:
    """The value of a decimal literal with its suffix."""
    return int(literal.rstrip("uUlL"))


def _variables_of(file: File, kernel: Kernel, site: Site, axis: int, literal: Expression) -> set[str]:
    """Names of host variables between the launch and the literal, each used for nothing else."""
    names: set[str] = set()
    for variable in site.host.variables.values():
        on_the_way = any(part.start == literal.start for part in variable.extents)
        if site.block is not None and variable.name == site.block[axis].text:
            on_the_way = True
        if on_the_way or variable.name == site.block_text:
            names.add(variable.name)
            definition = (variable.start, max(part.end for part in variable.extents) + 1)
            reason = other_use(file, variable.name, kernel, definition)
            if reason:
                raise Refused(f"it is `{variable.name}`, and {reason}")
    return names


def _tied_in_body(file: File, kernel: Kernel, value: int, axis: int) -> list[Place]:
    """Places in the kernel that repeat the number: array extents and `blockIdx.x * 256` change with it."""
    start, end = file.range(kernel.body)
    code = file.code
    extents = {
        file.range(s) for array in kernel.arrays for s in array.extent_spans if array.space == "shared"
    }
    places: list[Place] = []
    for found in INTEGER.finditer(code, start, end):
        token = int(found[1])
        if token not in (value, value - 1, 2 * value) and not (token * 2 == value and token >= 16):
            continue
        is_extent = any(low <= found.start() and found.end(1) <= high for low, high in extents)
        before, after = code[start : found.start()], code[found.end() : end]
        numbers_blocks = re.search(rf"blockIdx\.{AXES[axis]}\s*\*\s*\Z", before) or re.match(
            rf"[uUlL]*\s*\*\s*blockIdx\.{AXES[axis]}\b", after
        )
        if token != value or not (is_extent or numbers_blocks):
            line = file.text.position(found.start())[0]
            raise Refused(f"the kernel has {token} on line {line}, which may depend on it")
        places.append(place(file.text, found.start(1), found.end(1)))
    return places


def _tied_at_launch(file: File, site: Site, value: int) -> list[Place]:
    """The number in the dynamic shared size changes with it; as an argument of the kernel it is a refusal."""
    for argument in site.launch.arguments:
        if any(int(t[1]) == value for t in INTEGER.finditer(argument)):
            raise Refused(f"the kernel is also passed `{argument.strip()}`")
    places = template_places(file, site, value)
    if site.shared is not None:
        shared = leaf(site.shared, site.host)
        for token in INTEGER.finditer(shared.text):
            if int(token[1]) == value:
                at = shared.start + token.start(1)
                places.append(place(file.text, at, at + len(token[1])))
            elif int(token[1]) > value:
                raise Refused(f"the dynamic shared size `{shared.text}` may depend on it")
    return places


def template_places(file: File, site: Site, value: int) -> list[Place]:
    """Template arguments of a launch that are this number."""
    return [
        place(file.text, e.start, e.start + len(str(value)))
        for e in site.template_arguments
        if LITERAL.match(e.text) and number(e.text) == value
    ]


def _tied_bounds(file: File, kernel: Kernel, value: int) -> list[Place]:
    bounds = kernel.launch_bounds
    if bounds is None or bounds.span is None or not LITERAL.match(bounds.max_threads.strip()):
        return []
    if number(bounds.max_threads.strip()) != value:
        return []
    start, end = file.range(bounds.span)
    found = re.compile(rf"\b{value}(?=[uUlL]*\b)").search(file.code, start, end)
    return [place(file.text, found.start(), found.end())] if found else []


def _largest(file: File, kernel: Kernel, axis: int, value: int, limits: Limits) -> int:
    """The most threads that the card, the launch bounds and per-warp shared arrays allow."""
    top = limits.max_threads_per_block
    bounds = kernel.launch_bounds
    if bounds is not None and bounds.max_threads_value and not _tied_bounds(file, kernel, value):
        top = min(top, bounds.max_threads_value)
    tied = {p.span for p in _tied_in_body(file, kernel, value, axis)}
    for array in kernel.arrays:
        fixed = array.space == "shared" and not array.dynamic and array.sizes and array.sizes[-1]
        if fixed and LITERAL.match(array.extents[-1]) and not tied & set(array.extent_spans):
            # One element a thread, or one a warp: more threads than that would write past its end.
            size = array.sizes[-1] or 0
            room = size if size >= value else size * limits.warp_size
            top = min(top, room) if room >= value else top
    return top
