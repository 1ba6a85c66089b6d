"""Constants of the file and template arguments as parameters: tiles, and block sizes held by a name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.arch.gpu import Limits
from warplens_tools.cuda.model import Constant, Kernel
from warplens_tools.tunable.block_sizes import (
    AXES,
    INTEGER,
    LITERAL,
    Refused,
    block_domain,
    follow_grid,
    number,
    read_body,
    template_places,
)
from warplens_tools.tunable.constant_uses import File, other_use
from warplens_tools.tunable.host_code import names_behind
from warplens_tools.tunable.parameter import Refusal, TunableParameter, neighbourhood, others, place

#: A loop step, a shared extent, or an index made of `blockIdx`: what a tile is, unlike a plain factor.
_SHAPES = r"\+=\s*(?:\w+::)*{0}\b|blockIdx\.[xyz]\s*\*\s*\(?\s*(?:\w+::)*{0}\b|#pragma unroll\s*\(?\s*{0}\b"


def tile_parameters(file: File, kernel: Kernel, limits: Limits) -> Iterator[TunableParameter | Refusal]:
    """Constants with a literal value that shape this kernel's tiles or its block."""
    hosts = [site.host for site in file.sites if site.host.start > 0]
    for constant in file.model.constants:
        start, _ = file.range(constant.span)
        if any(host.start <= start < host.end for host in hosts) or not LITERAL.match(constant.text.strip()):
            continue
        axes = _axes(file, kernel, constant.name)
        if constant.value is None or constant.value < 2 or not (axes or _shapes(file, kernel, constant.name)):
            continue
        kind = "block" if axes else "tile"
        try:
            yield _parameter(file, kernel, limits, constant, axes)
        except Refused as refused:
            yield Refusal(constant.name, "block" if kind == "block" else "tile", str(refused))


def template_parameters(file: File, kernel: Kernel) -> Iterator[TunableParameter | Refusal]:
    """Integer template arguments at a kernel's launches that are not its block size."""
    sites = file.of(kernel)
    if not sites:
        return
    for index, argument in enumerate(sites[0].template_arguments):
        same = [
            s
            for s in sites
            if index < len(s.template_arguments) and s.template_arguments[index].text == argument.text
        ]
        if not LITERAL.match(argument.text) or number(argument.text) < 2:
            continue
        value = number(argument.text)
        name = f"template argument {index + 1}"
        if any(site.launch.block_value[axis] == value for site in sites for axis in range(3)):
            continue  # changes with the block, see blocks.py
        if len(same) < len(sites):
            yield Refusal(name, "template_argument", "its launches use different values")
            continue
        line = _repeated(file, kernel, value)
        if line:
            yield Refusal(
                name, "template_argument", f"host code has {value} on line {line}, which may depend on it"
            )
            continue
        places = tuple(p for site in sites for p in template_places(file, site, value))
        yield TunableParameter(
            name, "template_argument", value, neighbourhood(value, high=256, octaves=2), places
        )


def _parameter(
    file: File, kernel: Kernel, limits: Limits, constant: Constant, axes: tuple[int, ...]
) -> TunableParameter:
    value = constant.value or 0
    if sum(c.name == constant.name for c in file.model.constants) > 1:
        raise Refused("it has several definitions")
    reason = other_use(file, constant.name, kernel, file.range(constant.span))
    if reason:
        raise Refused(reason)
    domain = neighbourhood(value)
    if axes:
        domain = _block_domain(file, kernel, limits, constant.name, value, axes)
    start, _ = file.range(constant.value_span)
    digits = INTEGER.search(file.code, start)
    assert digits is not None
    spot = place(file.text, digits.start(1), digits.end(1))
    return TunableParameter(constant.name, "block" if axes else "tile", value, domain, (spot,))


def _block_domain(
    file: File, kernel: Kernel, limits: Limits, name: str, value: int, axes: tuple[int, ...]
) -> tuple[int, ...]:
    """Values of a constant that sets block extents; the body may use the name instead of blockDim."""
    start, end = file.range(kernel.span)
    names = _derived(file, name)
    named = any(re.search(rf"(?<![\w.]){re.escape(n)}\b", file.code[start:end]) for n in names)
    _no_bare_copy(file, kernel, value)
    divisors = False
    for site in file.of(kernel):
        for axis in axes:
            divisors |= follow_grid(file, kernel, site, axis, value, names, tied=named).divisors_only
    one_axis = axes == (0,) and all(s.launch.block_value[1:] == (1, 1) for s in file.of(kernel))
    if one_axis and not named:
        return block_domain(file, kernel, 0, value, limits, one_axis=True, divisors=divisors)
    domain = neighbourhood(value, high=limits.max_threads_per_block)
    halves = any(read_body(file, kernel, axis).halves for axis in axes)
    return others(
        (v for v in domain if (not divisors or value % v == 0) and (not halves or v & (v - 1) == 0)), value
    )


def _derived(file: File, name: str) -> set[str]:
    """The constant and those defined by it: `THREADS` as (TILE * TILE) for `TILE`."""
    names = {name}
    for constant in file.model.constants:
        if any(re.search(rf"\b{re.escape(known)}\b", constant.text) for known in names):
            names.add(constant.name)
    return names


def _no_bare_copy(file: File, kernel: Kernel, value: int) -> None:
    """Refuse where the kernel also spells the number out: which of the two is meant cannot be told."""
    start, end = file.range(kernel.body)
    for found in INTEGER.finditer(file.code, start, end):
        if int(found[1]) == value and value >= 16:
            raise Refused(f"the kernel also has {value} on line {file.text.position(found.start())[0]}")


def _axes(file: File, kernel: Kernel, name: str) -> tuple[int, ...]:
    """Axes of the kernel's blocks whose extent depends on the name."""
    return tuple(
        axis
        for axis in range(len(AXES))
        if any(
            site.block is not None
            and axis < len(site.block)
            and name in names_behind(site.block[axis], site.host, file.constant_texts)
            for site in file.of(kernel)
        )
    )


def _shapes(file: File, kernel: Kernel, name: str) -> bool:
    extents = [e for array in kernel.arrays if array.space == "shared" for e in array.extents]
    if any(re.search(rf"\b{re.escape(name)}\b", extent) for extent in extents):
        return True
    start, end = file.range(kernel.span)
    return re.search(_SHAPES.format(re.escape(name)), file.code[start:end]) is not None


def _repeated(file: File, kernel: Kernel, value: int) -> int:
    """A line of host code, outside the template arguments, that has the number; 0 if none."""
    for site in file.of(kernel):
        own = {argument.start for argument in site.template_arguments}
        for found in INTEGER.finditer(file.code, site.host.start, site.host.end):
            if int(found[1]) == value and found.start() not in own:
                return file.text.position(found.start())[0]
    return 0
