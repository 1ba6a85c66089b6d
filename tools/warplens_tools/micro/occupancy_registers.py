"""occupancy-registers

**What.** The registers a thread takes leave room for few warps on an SM, and those few do not keep
enough memory requests in flight to reach the memory roof.

**Why it costs.** While a warp waits for memory the scheduler runs others. With few resident warps and
few loads per thread there is nothing to run, and the memory system idles too.

**Wrong**

```cuda
__global__ void gather(...)                    // 168 registers: 12 warps of 64
```

**Right**

```cuda
__global__ void __launch_bounds__(256, 3) gather(...)   // at most 80 registers: 24 warps
```

**Evidence.** ptxas' registers per thread, the block size of the launches, the architecture's register
file and allocation unit; the bytes of the loads in the hot loop.

**Threshold.** Theoretical occupancy of at most 50 % (KernelPro fires below that) with registers as the limit,
and fewer bytes in flight than Little's law asks for at this GPU's DRAM roof. Low occupancy with enough
bytes in flight is not reported: many fast kernels are built that way. Device memory measured
at 80 % of its peak or more withdraws it: enough was in flight.

**References.** CUDA C++ Best Practices Guide, "Occupancy"; Volkov, "Better Performance at Lower Occupancy".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cost.parallelism import shortage
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.serial import judge_occupancy
from warplens_tools.view import KernelView


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel."""
    found = shortage(view, "registers")
    if found is None or view.evidence.binary is None:
        return
    registers = found.compiled.resources.registers
    target = found.occupancy.registers_for_next_block
    more = f" At most {target} registers would admit another block." if target else ""
    yield TOOL.finding(
        view,
        span=view.kernel.name_span,
        severity="warning" if found.occupancy.occupancy <= 0.25 else "information",
        confidence="medium",
        message=(
            f"{view.kernel.name} takes {registers} registers per thread, which limits occupancy to "
            f"{found.occupancy.occupancy:.0%}, and its loads do not fill the memory pipeline at that.{more}"
        ),
        guidance=(
            "Raise the bytes in flight: load more per thread before using it (unroll, vector loads), or cap the "
            "registers with __launch_bounds__(block, blocks) as far as nothing spills."
        ),
        evidence=found.observations(view.evidence.binary.origin),
        gain=found.gain,
    )


TOOL = MicroTool(
    code="WL201",
    slug="occupancy-registers",
    title="Registers limit the warps that hide latency",
    tiers=("binary",),
    relevant=("latency", "memory"),
    check=check,
    judge=judge_occupancy,
)
