# SPDX-License-Identifier: Apache-2.0
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
file and allocation unit; the bytes of the loads in the hot loop; the registers that the loops' SASS names, and the
clocks of one warp in them against those of the busiest pipe for all resident warps.

**Threshold.** Theoretical occupancy of at most 50 % (KernelPro fires below that) with registers as the limit,
and fewer bytes in flight than Little's law asks for at this GPU's DRAM roof; or loops that name at most half of the
registers, and would gain 1.3 and more from the warps that these alone admit. Low occupancy with enough
in flight is not reported: many fast kernels are built that way. Device memory measured
at 80 % of its peak or more withdraws it: enough was in flight.

**References.** CUDA C++ Best Practices Guide, "Occupancy"; Volkov, "Better Performance at Lower Occupancy".
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from warplens_tools.arch.occupancy import Occupancy
from warplens_tools.collect import metrics as names
from warplens_tools.cost.gain import make_gain
from warplens_tools.cost.geometry import geometry
from warplens_tools.cost.parallelism import LOW_OCCUPANCY, shortage
from warplens_tools.cost.stalls import innermost_passes, residency
from warplens_tools.evidence import CompiledKernel, Observation
from warplens_tools.finding import Finding, Gain
from warplens_tools.launches import theoretical_occupancy
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.room import CONFIRMED, EVERY, bounded, observed, stalled
from warplens_tools.micro.common.serial import judge_occupancy
from warplens_tools.sass.attribution import weights
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.registers import registers_of
from warplens_tools.view import KernelView

#: Registers of the kernel over those that its loops name, from which the rest counts as code outside them, and
#: registers that the compiler needs beside those of the loops.
COLD, SPARE = 2.0, 8
#: Speedup in the bounded model from which that is reported: latencies are known to a fifth or so.
REPORTED = 1.3
OUTSIDE = "registers that instructions in loops name"
#: Stalls that other warps would hide.
HIDDEN = ("long_scoreboard", "short_scoreboard", "wait", "dispatch_stall", "branch_resolve")


class Cold(msgspec.Struct, frozen=True):
    """Registers that code outside the loops asks for, and the warps they keep away from the loops."""

    compiled: CompiledKernel
    occupancy: Occupancy
    #: Registers that the loops' own instructions name.
    used: int
    gain: Gain


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel."""
    if view.evidence.binary is None:
        return
    cold = cold_registers(view)
    if cold is not None:
        yield _on_cold(view, cold, view.evidence.binary.origin)
        return
    found = shortage(view, "registers") if view.bottleneck.bound != "compute" else None
    if found is None:
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


def cold_registers(view: KernelView) -> Cold | None:
    """The registers of code outside the loops, where they limit occupancy and the loops wait for want of warps.

    The loops could run with as many warps as their own registers admit: their pass then takes what the busiest pipe
    needs for the warps there are, or one warp's time in the larger company.
    """
    compiled = view.evidence.worst
    held = None if compiled is None else residency(view, compiled)
    if compiled is None or held is None or not held.warps:
        return None
    found = theoretical_occupancy(view.kernel, view.model, compiled, view.gpu)
    used = loop_registers(compiled)
    if found is None or found.occupancy > LOW_OCCUPANCY or "registers" not in found.limiters:
        return None
    if not used or COLD * used > compiled.resources.registers or not _are_loops_hot(compiled):
        return None
    freed = msgspec.structs.replace(
        compiled, resources=msgspec.structs.replace(compiled.resources, registers=used + SPARE)
    )
    better = theoretical_occupancy(view.kernel, view.model, freed, view.gpu)
    shape = geometry(view)
    given = -(-shape.warps // view.gpu.multiprocessors) if shape is not None else view.gpu.limits.max_warps
    warps = min(better.warps, given) if better is not None else 0
    passes = [p for p in innermost_passes(view, compiled) if p.depth and p.busy]
    if warps <= held.warps or not passes:
        return None
    worst = max(passes, key=lambda p: p.alone)
    busy = held.warps * worst.busy
    ratio = max(worst.alone, busy) / max(worst.alone * held.warps / warps, busy)
    gain = make_gain(ratio, 1.0, max(ratio, worst.alone / busy))
    return Cold(compiled, found, used, gain) if gain.estimate >= REPORTED else None


def _are_loops_hot(compiled: CompiledKernel) -> bool:
    """Whether most of what is executed stands in loops."""
    flow = analyse(compiled.instructions)
    weight = weights(flow)
    return 2.0 * sum(w for w, depth in zip(weight, flow.depths, strict=True) if depth) > sum(weight)


def loop_registers(compiled: CompiledKernel) -> int:
    """General-purpose registers that instructions in loops name."""
    depths = analyse(compiled.instructions).depths
    named = {
        name
        for x, depth in zip(compiled.instructions, depths, strict=True)
        if depth
        for group in registers_of(x)
        for name in group
    }
    return sum(1 for name in named if name.startswith("R"))


def _on_cold(view: KernelView, cold: Cold, origin: str) -> Finding:
    registers = cold.compiled.resources.registers
    return TOOL.finding(
        view,
        span=view.kernel.name_span,
        severity="warning",
        confidence="high",
        message=(
            f"{view.kernel.name} takes {registers} registers per thread, of which its loops name {cold.used}: code "
            f"outside them limits occupancy to {cold.occupancy.occupancy:.0%}, and {cold.occupancy.warps} warps do not "
            "hide what the loops wait for."
        ),
        guidance=(
            "Move what needs the registers into a kernel of its own, launched on the threads that need it, or into a "
            "__noinline__ function; or cap them with __launch_bounds__(block, blocks): what then spills stands "
            "outside the loops."
        ),
        evidence=(
            Observation("binary", origin, "theoretical occupancy", round(cold.occupancy.occupancy, 3), "",
                        LOW_OCCUPANCY),
            Observation("binary", origin, "registers per thread", float(registers)),
            Observation("binary", origin, OUTSIDE, float(cold.used), "", registers / COLD),
        ),
        gain=cold.gain,
    )  # fmt: skip


def judge(view: KernelView, finding: Finding) -> Finding | None:
    """As `judge_occupancy`; where loops wait for any result, by all stalls that more warps would hide."""
    counters = view.evidence.counters
    if counters is None or all(seen.metric != OUTSIDE for seen in finding.evidence):
        return judge_occupancy(view, finding)
    waits = stalled(counters, HIDDEN)
    if waits is None:
        return finding
    achieved = names.value(counters, names.ACHIEVED_OCCUPANCY)
    seen = observed(counters, "stalls that other warps would hide", waits, CONFIRMED)
    return bounded(counters, finding, seen, EVERY, most=100.0 / achieved if achieved else float("inf"))


TOOL = MicroTool(
    code="WL201",
    slug="occupancy-registers",
    title="Registers limit the warps that hide latency",
    tiers=("binary",),
    relevant=("latency", "memory", "compute"),
    check=check,
    judge=judge,
)
