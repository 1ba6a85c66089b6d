# SPDX-License-Identifier: Apache-2.0
"""uncoalesced-global-read

**What.** The lanes of a warp read global memory far apart from each other: the index grows by a whole
row, not by one element, from one `threadIdx.x` to the next.

**Why it costs.** Memory is moved in sectors of 32 bytes. A warp that reads 32 neighbouring floats moves
4 sectors of one cache line; one that reads 32 floats of different rows moves 32 sectors of 32 lines and
uses an eighth of each. The L1 looks up one line per cycle, so the request also takes 32 cycles.

**Wrong**

```cuda
int r = blockIdx.x * blockDim.x + threadIdx.x;
for (int c = 0; c < columns; ++c)
    sum += a[r * columns + c];          // lanes are `columns` elements apart
```

**Right**

```cuda
int c = blockIdx.x * blockDim.x + threadIdx.x;
for (int r = 0; r < rows; ++r)
    sum += a[r * columns + c];          // lanes are neighbours; or one warp per row and a shuffle
```

**Evidence.** The index as a function of `threadIdx`, with the block's extents and the arguments that the
launches fix, evaluated for every lane of a warp: sectors per request. Where SASS is at hand, the loads
it became, and the time that the kernel's other needs leave to gain.

**Threshold.** Twice the sectors that the wanted bytes fill; with SASS, an expected gain of 1.1. A distance between
lanes that only the launch knows may be one element, as of an accessor's or a tensor's stride: it counts as a row only
where a loop, blocks or other threads go along between the lanes. Where nobody wants what lies between them, as of a
diagonal, nothing is said. Rows of single bytes whose length is not known are information: neighbouring lanes share the
sectors of short ones. Without SASS it is information only. Counters that show no more sectors on the line than
needed withdraw it.

**References.** CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"; Nsight Compute's rule
on uncoalesced global accesses.
"""

from __future__ import annotations

from warplens_tools.machine.coalescing import WarpAccess
from warplens_tools.machine.counted import Wasteful
from warplens_tools.micro.common.coalescing import CoalescingTool
from warplens_tools.micro.common.sectors import lane_words
from warplens_tools.micro.common.shuffled import writes_beside


class UncoalescedGlobalRead(CoalescingTool):
    """Reads whose lanes are far apart, for no reason that another of the family names."""

    code = "WL101"
    slug = "uncoalesced-global-read"
    title = "Uncoalesced reads of global memory"
    avoid = (
        "Do not raise occupancy or unroll instead: the sectors stay as many. Do not transpose data that the "
        "host reads."
    )
    rule_words = "uncoalesced|access pattern.*global load"
    cause = "read"
    guidance_hidden = (
        "Let threadIdx.x run along the inner extent of what is read, or bring a tile in by rows "
        "through shared memory and read it by columns from there."
    )
    guidance_counted = (
        "Let neighbouring lanes read neighbouring elements: run threadIdx.x along the inner extent of what is "
        "read, or bring a tile in by rows through shared memory and read it by columns from there."
    )
    index_query = "tiled copy transpose shared memory layout"

    def words(self, worst: WarpAccess) -> tuple[str, str]:
        """Message and guidance."""
        text, name = self.view.said(worst.access.span), worst.access.name
        if self.is_of_bytes(worst):
            return (
                f"Uncoalesced read of {text}, byte by byte: {self.most(worst)} sectors per request, "
                f"{worst.ideal_sectors} would suffice, where rows are long: {lane_words(worst)} in {name}.",
                f"Pad the rows of {name} to whole words and go through them in 4 or 16 bytes at once (uint32_t, "
                "uint4): a quarter of the loads and less. Another layout of the lanes helps only where a row "
                "is longer than a sector.",
            )
        return (
            f"Uncoalesced read of {text}: {self.most(worst)} sectors per request, {worst.ideal_sectors} would suffice: "
            f"{lane_words(worst)} in {name}.",
            f"Let the lanes of a warp go through {name} together, one element each, and reduce with shuffles, or "
            f"store {name} transposed so that threadIdx.x runs along its inner extent."
            if worst.reused_by == "loop" and not writes_beside(self.view, worst)
            else f"Let the lanes of a warp go through {name} together, one element each: run threadIdx.x along its "
            "inner extent and the loop along the other."
            if worst.reused_by == "loop"
            else f"Swap the roles of the indices so that threadIdx.x runs along the inner extent of {name}, or bring "
            "a tile in by rows through shared memory and read it by columns from there.",
        )

    def words_counted(self, found: Wasteful) -> str:
        """The message."""
        return (
            f"Uncoalesced read: the loads of this line take {found.ratio:.1f} times the sectors that hold "
            "their data."
        )
