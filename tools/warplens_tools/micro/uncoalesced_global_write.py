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

**Threshold.** Twice the sectors that the written bytes fill; with SASS, an expected gain of 1.1. Counters that
show no more sectors on the line than needed withdraw it.

**References.** CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"; M. Harris, "An Efficient
Matrix Transpose in CUDA C/C++", NVIDIA Technical Blog.
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.collect import metrics as names
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.counted import counted_finding, wasteful_line
from warplens_tools.micro.common.measured import judge_by_stored_sectors
from warplens_tools.micro.common.overfetch import lane_words, sector_finding, uncoalesced
from warplens_tools.micro.common.scattered import scattered_finding
from warplens_tools.view import KernelView

_HIDDEN = (
    "Let threadIdx.x run along the inner extent of what is written, or collect a tile in "
    "shared memory and write it out by rows."
)


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on the store that wastes most."""
    found = uncoalesced(view, "write")
    if not found:
        hidden = scattered_finding(view, TOOL, "write", _HIDDEN)
        yield from (hidden,) if hidden is not None else ()
        return
    worst = found[0]
    text, name = view.text.slice(worst.access.span), worst.access.name
    finding = sector_finding(
        view,
        TOOL,
        found,
        message=(
            f"{text} is written with {worst.sectors} sectors a request where {worst.least} would do: "
            f"{lane_words(worst)} in {name}."
        ),
        guidance=(
            f"Exchange the elements through a shared tile (padded by one column) so that threadIdx.x runs along the "
            f"inner extent of {name} when it is written, or choose the layout of {name} to match its writer."
        ),
        index_query="epilogue tiled copy shared memory store transpose",
    )
    if finding is not None:
        yield finding


def spot(view: KernelView) -> Iterator[Finding]:
    """Stores that were counted to take far more sectors than their lanes fill, whatever their address is made of."""
    found = wasteful_line(view, names.GLOBAL_SECTORS, "global", stores=True)
    if found is None:
        return
    yield counted_finding(
        view,
        TOOL,
        found,
        message=f"The stores of this line take {found.ratio:.1f} times the sectors that hold what the lanes write.",
        guidance=(
            "Exchange the elements through a shared tile (padded by one column) so that neighbouring lanes write "
            "neighbouring elements, or choose the layout to match its writer."
        ),
    )


TOOL = MicroTool(
    code="WL102",
    slug="uncoalesced-global-write",
    title="The lanes of a warp write global memory far apart",
    tiers=("source", "binary"),
    relevant=("memory", "latency"),
    check=check,
    spot=spot,
    judge=judge_by_stored_sectors,
)
