# SPDX-License-Identifier: Apache-2.0
"""narrow-block

**What.** The rows of a block are shorter than a warp, so that a request of a warp goes to several short rows of an
array instead of one stretch of it.

**Why it costs.** A warp of a block of 8 x 8 threads reads four rows of 32 bytes where one of 32 x 2 reads 128 bytes
in a row: four places to look up in the L1, sectors that are used in part where rows begin within one, and halos that
are as large as what they surround.

**Wrong**

```cuda
dim3 block(8, 8);                        // a warp is 4 rows of 8 threads
```

**Right**

```cuda
dim3 block(32, 8);                       // a warp is a row
```

**Evidence.** The block of the launches, and accesses whose neighbouring lanes along threadIdx.x are side by side.

**Threshold.** Rows of at most one sector (32 bytes), two of them a warp. It is information: what else binds the kernel
is not weighed.

**References.** CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory", "Thread and Block Heuristics".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.arch.gpu import SECTOR_BYTES
from warplens_tools.finding import Finding
from warplens_tools.machine.coalescing import WarpAccess
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.sectors import growth_along_lanes


class NarrowBlock(MicroTool):
    """A warp of a narrow block spans several rows."""

    code = "WL126"
    slug = "narrow-block"
    title = "A warp of a narrow block reads several short rows"
    avoid = (
        "Do not widen the block where the kernel has its width as a number of its own, or keeps a tile of it."
    )
    family = "the size of the block"
    rule_words = "coalesc|sectors"
    of_launch = True
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on its first launch, else on the access."""
        block = self.view.block
        if block is None or block[0] >= self.gpu.limits.warp_size or block[0] == 1:
            return
        rows = [w for w in self.view.warp_accesses if _is_row(w)]
        if not rows:
            return
        worst = max(rows, key=lambda w: w.overfetch)
        name, width = worst.access.name, " x ".join(str(n) for n in block if n != 1)
        yield self.finding(
            self.view.sites[0].block_span if self.view.sites else worst.access.span,
            severity="information",
            confidence="medium",
            message=(
                f"Narrow block: a warp of {width} threads takes {worst.runs} rows of {worst.wanted // worst.runs} "
                f"bytes of {name}, {worst.sectors} sectors of {worst.lines} lines, instead of {worst.wanted} in a row."
            ),
            guidance=(
                "Make blocks 32 threads wide (32 x 4, 32 x 8), so that a warp reads and writes one row; the grid and "
                "the sizes that the kernel takes of blockDim follow."
            ),
            evidence=(
                self.view.observe("rows of a request", float(worst.runs), "", 1.0, tier="source"),
            ),
        )  # fmt: skip


def _is_row(warp: WarpAccess) -> bool:
    """Whether the lanes of each of several rows, of a sector at most, are side by side."""
    growth = growth_along_lanes(warp)
    beside = growth is not None and growth.value in (1, -1)
    return beside and warp.runs > 1 and warp.wanted <= SECTOR_BYTES * warp.runs and not warp.access.atomic
