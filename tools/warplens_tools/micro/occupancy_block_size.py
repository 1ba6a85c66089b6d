"""occupancy-block-size

**What.** The block size leaves warp slots of an SM empty: blocks so small that their number is the limit,
or so large that a second one does not fit.

**Why it costs.** An SM holds a limited number of blocks. With 32 threads a block, the block limit is
reached at half or less of the warp limit; with 768 threads, one of the remaining warp slots in four
stays empty whatever else the kernel does.

**Wrong**

```cuda
scale<<<n / 32, 32>>>(out, in, n);
```

**Right**

```cuda
scale<<<n / 256, 256>>>(out, in, n);
```

**Evidence.** The block size of the launches, the architecture's limits on blocks, warps and threads per
SM; the bytes of the loads in the hot loop.

**Threshold.** As for occupancy-registers, with the number of blocks or of warps as the limit. Device memory measured
at 80 % of its peak or more withdraws it: enough was in flight.

**References.** CUDA C++ Programming Guide, "Compute Capabilities" (technical specifications); CUDA C++ Best
Practices Guide, "Thread and Block Heuristics".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cost.parallelism import shortage
from warplens_tools.finding import Finding
from warplens_tools.launches import block_threads
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.serial import judge_occupancy
from warplens_tools.view import KernelView


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on its first launch."""
    found = shortage(view, "blocks") or shortage(view, "warps")
    if found is None or view.evidence.binary is None:
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


TOOL = MicroTool(
    code="WL203",
    slug="occupancy-block-size",
    title="The block size leaves warp slots empty",
    tiers=("binary",),
    relevant=("latency", "memory"),
    check=check,
    judge=judge_occupancy,
)
