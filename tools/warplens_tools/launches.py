# SPDX-License-Identifier: Apache-2.0
"""What the launch sites say of a kernel's geometry."""

from __future__ import annotations

import math

from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.occupancy import Occupancy, occupancy
from warplens_tools.cuda.model import Kernel, LaunchSite, SourceModel
from warplens_tools.evidence import CompiledKernel


def block_size(site: LaunchSite) -> int | None:
    """Threads per block of a launch site; None where an extent does not follow from constants."""
    extents = [value for value in site.block_value if value is not None]
    return math.prod(extents) if len(extents) == 3 else None


def block_extents(kernel: Kernel, model: SourceModel) -> tuple[int, int, int] | None:
    """Block extents (x, y, z) that all launch sites of the file agree on; None otherwise, or if one is empty."""
    known = {site.block_value for site in model.launches_of(kernel)}
    if len(known) != 1:
        return None
    x, y, z = known.pop()
    return None if x is None or y is None or z is None or min(x, y, z) < 1 else (x, y, z)


def grid_blocks(kernel: Kernel, model: SourceModel) -> int | None:
    """Blocks of the largest launch in the file; None where a site's grid does not follow from constants."""
    counts = []
    for site in model.launches_of(kernel):
        extents = [value for value in site.grid_value if value is not None]
        if len(extents) != 3:
            return None
        counts.append(math.prod(extents))
    return max(counts, default=None)


def block_threads(kernel: Kernel, model: SourceModel, compiled: CompiledKernel | None = None) -> int | None:
    """Threads per block to judge occupancy by: the largest launched, else what the launch bounds allow."""
    sizes = [size for site in model.launches_of(kernel) if (size := block_size(site)) is not None]
    if sizes:
        return max(sizes)
    bounds = kernel.launch_bounds
    if bounds is not None and bounds.max_threads_value is not None:
        return bounds.max_threads_value
    return compiled.max_threads if compiled is not None else None


def dynamic_shared_bytes(kernel: Kernel, model: SourceModel) -> int | None:
    """Largest dynamic shared memory of the file's launches in bytes; None where a site's does not follow.

    Without launch sites in the file it is 0 if the kernel declares no `extern __shared__` array.
    """
    sites = model.launches_of(kernel)
    if not sites:
        return None if any(array.dynamic for array in kernel.arrays) else 0
    amounts = [site.shared_value if site.shared else 0 for site in sites]
    known = [amount for amount in amounts if amount is not None]
    return max(known) if len(known) == len(amounts) else None


def theoretical_occupancy(
    kernel: Kernel, model: SourceModel, compiled: CompiledKernel, gpu: Gpu
) -> Occupancy | None:
    """Occupancy of a compiled kernel as the file launches it; None where the launch is not known."""
    threads = block_threads(kernel, model, compiled)
    dynamic = dynamic_shared_bytes(kernel, model)
    if threads is None or dynamic is None or threads < 1:
        return None
    return occupancy(
        gpu.limits,
        block_threads=threads,
        registers=compiled.resources.registers,
        shared_bytes=compiled.resources.shared_bytes + dynamic,
    )
