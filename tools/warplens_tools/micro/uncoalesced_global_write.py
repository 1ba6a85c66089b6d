# SPDX-License-Identifier: Apache-2.0
"""uncoalesced-global-write

**What.** The lanes of a warp write global memory far apart from each other.

**Why it costs.** Stores go through to the L2 in sectors of 32 bytes. 32 neighbouring floats are 4 sectors;
32 floats of different rows are 32 sectors, each written in part, and 32 cache lines for the L1 to look up.

**Wrong**

```cuda
int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
out[x * height + y] = in[y * width + x];       // lanes are `height` elements apart
```

**Right**

```cuda
__shared__ float tile[32][33];
tile[threadIdx.y][threadIdx.x] = in[y * width + x];
__syncthreads();
out[(blockIdx.x * 32 + threadIdx.y) * height + blockIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
```

**Evidence.** As for uncoalesced-global-read: sectors per request of the store, from its index for every
lane; where SASS is at hand, the stores it became.

**Threshold.** Twice the sectors that the written bytes fill; with SASS, an expected gain of 1.1. As of
uncoalesced reads, a distance between lanes that only the launch knows counts as a row only where something goes along
between them. Counters that show no more sectors on the line than needed withdraw it.

**References.** CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"; M. Harris, "An Efficient
Matrix Transpose in CUDA C/C++", NVIDIA Technical Blog.
"""

from __future__ import annotations

import re

from warplens_tools.collect import metrics as names
from warplens_tools.machine.coalescing import WarpAccess
from warplens_tools.machine.counted import Wasteful
from warplens_tools.micro.common.coalescing import CoalescingTool
from warplens_tools.micro.common.judges import judge_by_stored_sectors
from warplens_tools.micro.common.sectors import lane_words

#: `= 0.0f;` or `= value;` behind an element.
_STORED = re.compile(r"\s*=\s*(?:[-+]?\.?\d[\w.]*|(?P<name>[A-Za-z_]\w*))\s*;")


class UncoalescedGlobalWrite(CoalescingTool):
    """Writes whose lanes are far apart, for no reason that another of the family names."""

    code = "WL102"
    slug = "uncoalesced-global-write"
    title = "Uncoalesced writes of global memory"
    avoid = (
        "Do not raise occupancy or unroll instead: the sectors stay as many. Do not leave out elements at the"
        " edge of a tile."
    )
    rule_words = "uncoalesced|access pattern.*global store"
    judges = (judge_by_stored_sectors,)
    cause = "write"
    guidance_hidden = (
        "Let threadIdx.x run along the inner extent of what is written, or collect a tile in "
        "shared memory and write it out by rows."
    )
    guidance_counted = (
        "Exchange the elements through a shared tile (padded by one column) so that neighbouring lanes write "
        "neighbouring elements, or choose the layout to match its writer."
    )
    index_query = "epilogue tiled copy shared memory store transpose"

    def words(self, worst: WarpAccess) -> tuple[str, str]:
        """Message and guidance."""
        text, name = self.view.said(worst.access.span), worst.access.name
        return (
            f"Uncoalesced write of {text}: {self.most(worst)} sectors per request, {worst.ideal_sectors} would "
            f"suffice: {lane_words(worst)} in {name}.",
            f"Let threadIdx.x run along the inner extent of {name}: what is stored is the same for all, so that x and "
            "y can change places in the kernel and its launch; or fill it by cudaMemsetAsync, where its bytes allow it."
            if self._is_filled(worst)
            else "Exchange the elements through a shared tile (padded by one column) so that threadIdx.x runs along "
            f"the inner extent of {name} when it is written, or choose the layout of {name} to match its writer.",
        )

    def _is_filled(self, worst: WarpAccess) -> bool:
        """Whether a number is stored as it is written, or as the launch passes it."""
        span = worst.access.span
        stored = _STORED.match(self.view.text.line_text(span.end_line), span.end_column - 1)
        passed = {p.name for p in self.view.kernel.parameters if not p.pointer}
        return stored is not None and (not stored["name"] or stored["name"] in passed)

    def words_counted(self, found: Wasteful) -> str:
        """The message."""
        return (
            f"Uncoalesced write: the stores of this line take {found.ratio:.1f} times the sectors that hold "
            "their data."
        )

    def counted_waste(self) -> Wasteful | None:
        """The line of stores that wastes most."""
        counted = self.view.counted
        return counted.wasteful_line(names.GLOBAL_SECTORS, "global", stores=True) if counted else None
