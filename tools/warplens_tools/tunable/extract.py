# SPDX-License-Identifier: Apache-2.0
"""Turns a kernel into a template: every number in it that may be tuned, found without a model.

The first stage of a two-stage tuner (arXiv 2601.12698), done on the syntax: literals and named constants
in launch configurations, tile constants, unroll pragmas, launch bounds, integer template arguments. What
is extracted keeps the program's meaning as far as the text shows; the judge decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from warplens_tools.arch.gpu import Limits
from warplens_tools.cuda.model import Kernel, LaunchSite
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.tunable.block_sizes import KIND as BLOCK
from warplens_tools.tunable.block_sizes import BlockSizes
from warplens_tools.tunable.parameter import Geometry, Kind, Refusal, Template, TunableParameter
from warplens_tools.tunable.pragmas import LAUNCH_BOUNDS, UNROLL, bounds_parameters, unroll_parameters
from warplens_tools.tunable.source import AXES, File, Site, TunedKernel
from warplens_tools.tunable.tiles import BROUGHT, TEMPLATE_ARGUMENT, TILE, Tiles

#: Every kind of parameter there is; a test compares it with `ParameterKind`.
KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (BLOCK, TILE, BROUGHT, TEMPLATE_ARGUMENT, UNROLL, LAUNCH_BOUNDS)
}


def extract(
    file: File, kernel: Kernel, limits: Limits, ranges: Mapping[str, Sequence[int]] | None = None
) -> Template:
    """The kernel's parameters, and the numbers that were left alone with the reason.

    `ranges` are those of constants that a rewrite has brought (`Rewrite.ranges`), by their `canonical` names: none
    for one that must stay as it is. All other constants are tuned where their use says what they are.
    """
    if kernel.broken or kernel.macro:
        return Template()
    tuned = TunedKernel(file, kernel, limits)
    tiles = Tiles(tuned, ranges)
    found = [
        *BlockSizes(tuned).parameters(),
        *tiles.parameters(),
        *tiles.template_arguments(),
        *bounds_parameters(tuned),
        *unroll_parameters(tuned),
    ]
    return Template(
        parameters=tuple(p for p in found if isinstance(p, TunableParameter) and p.domain),
        refused=tuple(p for p in found if isinstance(p, Refusal)),
    )


def illegal(before: File, after: File, name: str, limits: Limits) -> str:
    """Why a changed file could not run on the card or would leave data out; "" if nothing speaks for that."""
    kernel, old = after.model.kernel(name), before.model.kernel(name)
    if kernel is None or old is None or kernel.broken or len(after.model.errors) > len(before.model.errors):
        return "it does not parse"
    tuned, was = TunedKernel(after, kernel, limits), before.model.launches_of(old)
    for index, site in enumerate(after.model.launches_of(kernel)):
        previous = was[index] if index < len(was) else site
        reason = _illegal_launch(kernel, site, previous, limits)
        reason = reason or _uncovered(tuned, site, previous)
        if reason:
            return reason
    return _too_much_shared(after, kernel, limits)


def static_shared_bytes(kernel: Kernel) -> int | None:
    """Static shared memory of a block; None where an extent or an element type is not known."""
    total = 0
    for array in kernel.arrays:
        if array.space != "shared" or array.dynamic:
            continue
        size = type_bytes(array.element_type)
        if size is None or None in array.sizes:
            return None
        total += size * math.prod(n for n in array.sizes if n is not None)
    return total


def launch_geometry(before: File, after: File, name: str) -> Geometry:
    """The geometry that a changed file launches with, where constants decide it.

    A field is None where it is the baseline's.
    """
    old, new = _single_launch(before, name), _single_launch(after, name)
    if old is None or new is None:
        return Geometry(known=_launches(before, name) == _launches(after, name))
    grid, block, shared = _full(new.launch.grid_value), _full(new.launch.block_value), new.launch.shared_value
    for value, was, now in zip(
        (grid, block, shared), _spelled(before, old), _spelled(after, new), strict=True
    ):
        if value is None and was != now:
            return Geometry(known=False)
    return Geometry(
        grid=grid if grid != _full(old.launch.grid_value) else None,
        block=block if block != _full(old.launch.block_value) else None,
        dynamic_shared_bytes=shared if shared != old.launch.shared_value else None,
    )


def _illegal_launch(kernel: Kernel, site: LaunchSite, was: LaunchSite, limits: Limits) -> str:
    block, before = _full(site.block_value), _full(was.block_value)
    if block is None:
        return ""
    threads = math.prod(block)
    if threads > limits.max_threads_per_block:
        return f"{threads} threads per block"
    if kernel.launch_bounds and threads > (kernel.launch_bounds.max_threads_value or threads):
        return f"{threads} threads are more than the launch bounds allow"
    whole = before is None or math.prod(before) % limits.warp_size == 0
    if whole and threads % limits.warp_size:
        return f"{threads} threads leave a warp incomplete"
    return ""


def _uncovered(kernel: TunedKernel, site: LaunchSite, was: LaunchSite) -> str:
    """Where all is constant: no axis may count fewer threads than before, unless the kernel strides."""
    for axis in range(3):
        new, old = (
            (site.grid_value[axis], site.block_value[axis]),
            (was.grid_value[axis], was.block_value[axis]),
        )
        if None in new or None in old or new[1] == old[1]:
            continue
        threads, before = math.prod(n or 0 for n in new), math.prod(n or 0 for n in old)
        uses = kernel.uses(axis)
        if threads < before and uses.numbers_globally and not uses.strides_by_grid:
            return f"{threads} threads instead of {before} in {AXES[axis]}"
    return ""


def _too_much_shared(after: File, kernel: Kernel, limits: Limits) -> str:
    static = static_shared_bytes(kernel)
    if static is None:
        return ""
    if static > limits.default_shared_bytes_per_block:
        return f"{static} bytes of static shared memory"
    opted_in = "MaxDynamicSharedMemorySize" in after.code
    most = limits.max_shared_bytes_per_block if opted_in else limits.default_shared_bytes_per_block
    total = static + max((site.shared_value or 0 for site in after.model.launches_of(kernel)), default=0)
    return f"{total} bytes of shared memory" if total > most else ""


def _single_launch(file: File, name: str) -> Site | None:
    """The kernel's launch, where there is one, or all have one geometry."""
    kernel = file.model.kernel(name)
    sites = file.launches_of(kernel) if kernel is not None else ()
    shapes = {(s.launch.grid_value, s.launch.block_value, s.launch.shared_value) for s in sites}
    return sites[0] if len(shapes) == 1 else None


def _launches(file: File, name: str) -> list[object]:
    kernel = file.model.kernel(name)
    return [_spelled(file, site) for site in file.launches_of(kernel)] if kernel is not None else []


def _spelled(file: File, site: Site) -> list[object]:
    """Grid, block and shared size as written, each with the definitions of every name in it."""
    return [
        (file.tree.code_of(part), sorted(file.definitions(part).items())) if part is not None else None
        for part in site.written
    ]


def _full(value: tuple[int | None, int | None, int | None]) -> tuple[int, int, int] | None:
    x, y, z = value
    return None if x is None or y is None or z is None else (x, y, z)
