# SPDX-License-Identifier: Apache-2.0
"""What the launch sites say of a kernel's geometry."""

from __future__ import annotations

import math
from pathlib import PurePath

import msgspec

from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.occupancy import Occupancy, occupancy
from warplens_tools.cuda.model import Kernel, LaunchSite, SourceModel
from warplens_tools.cuda.values.constants import Dim3
from warplens_tools.evidence import CompiledKernel, KernelEvidence, Observation, Tier
from warplens_tools.lazily import cached_property

Extents = tuple[int, int, int]


class Geometry(msgspec.Struct, frozen=True):
    """Blocks and threads per block of one launch, and which evidence gives them."""

    blocks: int
    threads: int
    tier: Tier
    origin: str
    #: None where the launch was measured, or stands in another file.
    site: LaunchSite | None
    #: The other file and the line that it stands in, e.g. "main.cu:33".
    place: str = ""

    @property
    def warps(self) -> int:
        """Warps of the whole launch."""
        return -(-self.threads // 32) * self.blocks

    def observations(self, gpu: Gpu) -> tuple[Observation, Observation]:
        """Blocks against SMs, and warps against schedulers."""
        sms = f"SMs of {gpu.name}" + (f"; launched at {self.place}" if self.place else "")
        schedulers = float(gpu.schedulers)
        return (
            Observation(
                self.tier, self.origin, "blocks launched", float(self.blocks), "", float(gpu.multiprocessors), sms
            ),
            Observation(
                self.tier, self.origin, "warps launched", float(self.warps), "", schedulers, "warp schedulers"
            ),
        )  # fmt: skip


class Launches:
    """All launches of one kernel, in its file and in others."""

    def __init__(self, kernel: Kernel, model: SourceModel) -> None:
        self.kernel = kernel
        self.sites: tuple[LaunchSite, ...] = model.all_launches_of(kernel)

    @cached_property
    def block(self) -> Extents | None:
        """Block extents (x, y, z) that all sites agree on; None otherwise, or if one is empty."""
        known = {site.block_value for site in self.sites}
        if len(known) != 1:
            return None
        x, y, z = known.pop()
        return None if x is None or y is None or z is None or min(x, y, z) < 1 else (x, y, z)

    def lanes(self, warp_size: int) -> Extents | None:
        """Block extents that lay out the lanes of a warp as every launch does; None where that is not known.

        An extent that the file does not tell does not matter where those before it fill whole warps: of
        `dim3 block(4, 8, depth)` a warp has the same lanes whatever the depth.
        """
        known = {site.block_value for site in self.sites}
        if len(known) != 1:
            return None
        lanes, laid = 1, []
        for extent in known.pop():
            if extent is None and lanes % warp_size:
                return None
            laid.append(1 if extent is None else extent)
            lanes *= laid[-1]
        x, y, z = laid
        return (x, y, z) if min(laid) > 0 else None

    @property
    def is_of_one_thread(self) -> bool:
        """Whether every launch of the file is of one block of one thread."""
        return bool(self.sites) and all(s.grid.strip() == s.block.strip() == "1" for s in self.sites)

    @cached_property
    def extents(self) -> Dim3:
        """As `block`, extent by extent: None for each that the launches do not agree on or the file does not tell."""
        known = [set(along) for along in zip(*(site.block_value for site in self.sites), strict=True)]
        agreed = [one.pop() if len(one) == 1 else None for one in known] or [None] * 3
        x, y, z = (n if n is not None and n > 0 else None for n in agreed)
        return x, y, z

    def assumed_lanes(self, threads: int) -> Extents:
        """As `lanes`; where that is not known, the extents that are, and the rest as large as fills `threads`."""
        known = self.lanes(threads)
        if known is not None:
            return known
        x, y, z = self.extents
        if x is None:
            return (threads, 1, 1)
        rows = y if y is not None else -(-threads // x)
        return (x, rows, z if z is not None else -(-threads // (x * rows)))

    @cached_property
    def grid(self) -> dict[str, int]:
        """`gridDim` where the sites agree on it, by symbol name: {"gridDim.x": 132}."""
        grids = {site.grid_value for site in self.sites}
        found = grids.pop() if len(grids) == 1 else ()
        return {f"gridDim.{axis}": n for axis, n in zip("xyz", found, strict=False) if n is not None}

    @cached_property
    def blocks(self) -> int | None:
        """Blocks of the largest launch; None where a site's grid does not follow from constants."""
        counts = [_product(site.grid_value) for site in self.sites]
        known = [n for n in counts if n is not None]
        return max(known, default=None) if len(known) == len(counts) else None

    def threads(self, compiled: CompiledKernel | None = None) -> int | None:
        """Threads per block to judge occupancy by: the largest launched, in a run without arguments if need be, else
        what the launch bounds allow."""
        sizes = [size for site in self.sites if (size := _product(site.block_value)) is not None]
        if sizes:
            return max(sizes)
        if self.untold is not None:
            return self.untold.threads
        bounds = self.kernel.launch_bounds
        if bounds is not None and bounds.max_threads_value is not None:
            return bounds.max_threads_value
        return compiled.max_threads if compiled is not None else None

    @cached_property
    def dynamic_shared_bytes(self) -> int | None:
        """Largest dynamic shared memory of the launches in bytes; None where a site's does not follow.

        Without launch sites in the file it is 0 if the kernel declares no `extern __shared__` array.
        """
        if not self.sites:
            return None if any(array.dynamic for array in self.kernel.arrays) else 0
        amounts = [site.shared_value if site.shared else 0 for site in self.sites]
        known = [amount for amount in amounts if amount is not None]
        return max(known) if len(known) == len(amounts) else None

    def occupancy(self, compiled: CompiledKernel, gpu: Gpu, registers: int | None = None) -> Occupancy | None:
        """Theoretical occupancy as the file launches it; None where the launch is not known.

        `registers` takes the place of those that the kernel was compiled with.
        """
        threads, dynamic = self.threads(compiled), self.dynamic_shared_bytes
        if threads is None or dynamic is None or threads < 1:
            return None
        return occupancy(
            gpu.limits,
            block_threads=threads,
            registers=compiled.resources.registers if registers is None else registers,
            shared_bytes=compiled.resources.shared_bytes + dynamic,
        )

    def judged(self, evidence: KernelEvidence) -> Geometry | None:
        """The largest launch, as measured where it was; None where constants do not give it for every site."""
        seen = evidence.counters or evidence.timing
        if seen is not None:
            tier: Tier = "counters" if evidence.counters is not None else "timing"
            site = next((s for s in self.sites if not s.path), None)
            return Geometry(math.prod(seen.grid), math.prod(seen.block), tier, seen.origin, site)
        found = [_of_site(site) for site in self.sites]
        known = [shape for shape in found if shape is not None]
        return max(known, key=lambda s: s.warps) if known and len(known) == len(found) else None

    @cached_property
    def untold(self) -> Geometry | None:
        """The largest launch of a run without arguments; None where any site's does not follow, or all follow from
        constants alone."""
        found = [_of_site(s) or (_of_site(s, s.untold) if s.untold is not None else None) for s in self.sites]
        known = [shape for shape in found if shape is not None]
        hang = any(s.untold is not None for s in self.sites)
        return max(known, key=lambda s: s.warps) if hang and len(known) == len(found) else None


def _of_site(site: LaunchSite, extents: tuple[Dim3, Dim3] | None = None) -> Geometry | None:
    grid, block = extents or (site.grid_value, site.block_value)
    blocks, threads = _product(grid), _product(block)
    if not blocks or not threads:
        return None
    place = f"{PurePath(site.path).name}:{site.span.line}" if site.path else ""
    return Geometry(blocks, threads, "source", "tree-sitter", None if site.path else site, place)


def _product(extents: tuple[int | None, int | None, int | None]) -> int | None:
    """Of three extents; None where one does not follow from constants."""
    known = [n for n in extents if n is not None]
    return math.prod(known) if len(known) == 3 else None
