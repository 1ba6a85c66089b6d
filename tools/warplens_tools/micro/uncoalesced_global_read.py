# SPDX-License-Identifier: Apache-2.0
"""uncoalesced-global-read

**What.** The lanes of a warp read global memory far apart from each other: the index grows by a whole
row, not by one element, from one `threadIdx.x` to the next.

**Why it costs.** Memory is moved in sectors of 32 bytes. A warp that reads 32 neighbouring floats moves
4 sectors of one cache line; one that reads 32 floats of different rows moves 32 sectors of 32 lines and
uses an eighth of each. The L1 looks up one line per clock, so the request also takes 32 clocks.

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

**Threshold.** Twice the sectors that the wanted bytes fill; with SASS, an expected gain of 1.1. An integer that
is not known counts as a large multiple of a cache line. Without SASS it is information only. Counters that show
no more sectors on the line than needed withdraw it.

**References.** CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"; Nsight Compute's rule
on uncoalesced global accesses.
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.counted import counted_finding, wasteful_read
from warplens_tools.micro.common.measured import judge_by_sectors
from warplens_tools.micro.common.overfetch import lane_words, sector_finding, uncoalesced
from warplens_tools.micro.common.scattered import scattered_finding
from warplens_tools.view import KernelView

_HIDDEN = (
    "Let threadIdx.x run along the inner extent of what is read, or bring a tile in by rows "
    "through shared memory and read it by columns from there."
)


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on the read that wastes most."""
    found = uncoalesced(view, "read")
    if not found:
        hidden = scattered_finding(view, TOOL, "read", _HIDDEN)
        yield from (hidden,) if hidden is not None else ()
        return
    worst = found[0]
    text, name = view.text.slice(worst.access.span), worst.access.name
    along = worst.rest == "loop"
    finding = sector_finding(
        view,
        TOOL,
        found,
        message=(
            f"{text} is read with {worst.sectors} sectors a request where {worst.least} would do: "
            f"{lane_words(worst)} in {name}."
        ),
        guidance=(
            f"Let the lanes of a warp go through {name} together, one element each, and reduce with shuffles, or "
            f"store {name} transposed so that threadIdx.x runs along its inner extent."
            if along
            else f"Swap the roles of the indices so that threadIdx.x runs along the inner extent of {name}, or bring "
            "a tile in by rows through shared memory and read it by columns from there."
        ),
        index_query="tiled copy transpose shared memory layout",
    )
    if finding is not None:
        yield finding


def spot(view: KernelView) -> Iterator[Finding]:
    """Loads that were counted to take far more sectors than their lanes want, whatever their address is made of."""
    found = wasteful_read(view, "read")
    if found is None:
        return
    yield counted_finding(
        view,
        TOOL,
        found,
        message=f"The loads of this line take {found.ratio:.1f} times the sectors that hold what the lanes want.",
        guidance=(
            "Let neighbouring lanes read neighbouring elements: run threadIdx.x along the inner extent of what is "
            "read, or bring a tile in by rows through shared memory and read it by columns from there."
        ),
    )


TOOL = MicroTool(
    code="WL101",
    slug="uncoalesced-global-read",
    title="The lanes of a warp read global memory far apart",
    tiers=("source", "binary"),
    relevant=("memory", "latency"),
    check=check,
    spot=spot,
    judge=judge_by_sectors,
)
