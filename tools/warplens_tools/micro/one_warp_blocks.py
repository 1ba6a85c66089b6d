# SPDX-License-Identifier: Apache-2.0
"""one-warp-blocks

**What.** A kernel that walks loops is launched with blocks of a single warp.

**Why it costs.** An SM holds 32 blocks at once, so that half of its 64 warps stay empty whatever else the kernel needs.
What a block loads into shared memory serves 32 threads and is loaded again by each other block; and where the elements
are few, so are the warps: a thread for each of 4000 elements is 125 warps for 528 schedulers.

**Wrong**

```cuda
interact<<<(n + 31) / 32, 32>>>(position, force, n);      // each thread walks all n alone
```

**Right**

```cuda
interact<<<dim3((n + 127) / 128, parts), 128>>>(position, force, n);   // the walk is dealt out over blockIdx.y too
```

**Evidence.** The block that all launches of the file agree on, and the loops of the kernel.

**Threshold.** 17 to 32 threads, and more than one block. It is information: how many elements there are, and whether
the loads that wait would be hidden by more warps, is not known.

**References.** CUDA C++ Programming Guide, "Compute Capabilities" (technical specifications); CUDA C++ Best Practices
Guide, "Thread and Block Heuristics".
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.occupancy_block_size import OccupancyBlockSize


class OneWarpBlocks(MicroTool):
    """Blocks of one warp walk loops."""

    code = "WL221"
    slug = "one-warp-blocks"
    title = "Blocks of one warp leave half of an SM's warps empty"
    avoid = (
        "Do not enlarge the block where the kernel has its size as a number, or where warps exchange without "
        "barriers."
    )
    family = "the size of the block"
    rule_words = "block size|occupancy"
    of_launch = True
    tiers = ("source", "binary")
    relevant = ("latency", "memory", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on its first launch."""
        block, sites, shape = self.view.block, self.view.sites, self.view.shape
        limits = self.gpu.limits
        threads = math.prod(block) if block is not None else 0
        if not limits.warp_size // 2 < threads <= limits.warp_size or not self.view.runs_long:
            return
        if (
            shape is not None and shape.blocks < self.gpu.multiprocessors
        ) or "blockIdx" not in self.view.body:
            return  # its grid is what is small
        if self.sass and OccupancyBlockSize.told(self.view):
            return
        yield self.finding(
            sites[0].block_span if sites else self.view.kernel.name_span,
            severity="information",
            confidence="low",
            message=(
                f"Blocks of one warp ({threads} threads): an SM holds at most {limits.max_blocks} of them, "
                f"{limits.max_blocks / limits.max_warps:.0%} of its warps, and fewer than {self.gpu.schedulers} blocks "
                f"leave schedulers of {self.gpu.name} idle."
            ),
            guidance=(
                "Launch blocks of 128 to 256 threads, so that what a block loads serves more of them; where there are "
                "few elements, let several threads, warps or blocks share the walk of one and combine their parts."
            ),
            evidence=(
                self.view.observe(
                    "threads per block", float(threads), "", float(2 * limits.warp_size), tier="source"
                ),
            ),
        )
