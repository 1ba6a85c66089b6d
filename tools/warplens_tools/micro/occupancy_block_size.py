# SPDX-License-Identifier: Apache-2.0
"""occupancy-block-size

**What.** The block size leaves warp slots of an SM empty: blocks so small that their number is the limit,
or so large that a second one does not fit.

**Why it costs.** An SM holds a limited number of blocks. With 32 threads a block, the block limit is
reached at half or less of the warp limit; with 768 threads, one of the remaining warp slots in four
stays empty whatever else the kernel does. And the card starts one block after the other: small ones that
do little are done before the next have started.

**Wrong**

```cuda
scale<<<n / 32, 32>>>(out, in, n);
```

**Right**

```cuda
scale<<<n / 256, 256>>>(out, in, n);
```

**Evidence.** The block size of the launches, the architecture's limits on blocks, warps and threads per
SM; the bytes of the loads in the hot loop. The time to start a block against that of its work.

**Threshold.** As for occupancy-registers, with the number of blocks or of warps as the limit. For block starts
(fewer than 256 threads), a gain of 1.5 in the bounded model; an H200 starts a block every 1.2 clocks. Device memory
measured at 80 % of its peak or more withdraws it: enough was in flight.

**References.** CUDA C++ Programming Guide, "Compute Capabilities" (technical specifications); CUDA C++ Best
Practices Guide, "Thread and Block Heuristics".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cost.gain import make_gain
from warplens_tools.cost.parallelism import shortage
from warplens_tools.cost.waiting import waiting_floor
from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding
from warplens_tools.launches import block_threads
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.serial import judge_occupancy
from warplens_tools.roofline.classify import demand_of
from warplens_tools.view import KernelView

#: Threads of a block from which starting it is no matter, and the gain from which fewer are worth a word.
ENOUGH, WORTH = 256, 1.5


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on its first launch."""
    found = shortage(view, "blocks") or shortage(view, "warps")
    starts = list(_slow_starts(view))
    if starts or found is None or view.evidence.binary is None:
        yield from starts
        return
    threads = block_threads(view.kernel, view.model, found.compiled)
    sites = view.model.launches_of(view.kernel)
    yield TOOL.finding(
        view,
        span=sites[0].block_span if sites else view.kernel.name_span,
        severity="warning" if found.occupancy.occupancy <= 0.25 else "information",
        confidence="medium",
        message=(
            f"Blocks of {threads} threads let an SM hold {found.occupancy.blocks} blocks, "
            f"{found.occupancy.occupancy:.0%} of its warps, and the loads of {view.kernel.name} do not fill the "
            "memory pipeline at that."
        ),
        guidance="Launch blocks of 128 to 256 threads, a multiple of 32 that divides the SM's thread limit.",
        evidence=found.observations(view.evidence.binary.origin),
        gain=found.gain,
    )


def _slow_starts(view: KernelView) -> Iterator[Finding]:
    """Blocks that are done before the card has started the next ones."""
    compiled, binary = view.evidence.worst, view.evidence.binary
    threads = block_threads(view.kernel, view.model, compiled)
    sites = view.model.launches_of(view.kernel)
    if compiled is None or binary is None or threads is None or threads >= ENOUGH or not sites:
        return
    floor = waiting_floor(view, compiled)
    demand = demand_of(view, compiled)
    rest = max(floor.get("waiting", 0.0), demand.dram_lower, *demand.pipes.values())
    ratio = floor.get("blocks", 0.0) / max(rest, floor.get("blocks", 0.0) * threads / ENOUGH)
    if ratio < WORTH:
        return
    yield TOOL.finding(
        view,
        span=sites[0].block_span,
        severity="warning",
        confidence="medium",
        message=(
            f"Blocks of {threads} threads are done sooner than the card starts others: about one block every "
            f"{view.gpu.costs.block_start:.1f} clocks, whatever its size."
        ),
        guidance=(
            f"Launch blocks of {ENOUGH} threads, or let each thread work on several elements (a grid-stride loop)."
        ),
        evidence=(
            Observation(
                "binary", binary.origin, "block starts over the SM's other work", round(ratio, 2), "", WORTH
            ),
        ),
        gain=make_gain(ratio, 1.0, ratio),
    )


TOOL = MicroTool(
    code="WL203",
    slug="occupancy-block-size",
    title="The block size leaves warp slots empty",
    tiers=("binary",),
    relevant=("latency", "memory"),
    check=check,
    judge=judge_occupancy,
)
