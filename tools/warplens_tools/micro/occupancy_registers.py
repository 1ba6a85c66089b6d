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
cycles of one warp in them against those of the busiest pipe for all resident warps.

**Threshold.** Theoretical occupancy of at most 50 % (KernelPro fires below that) with registers as the limit,
and fewer bytes in flight than Little's law asks for at this GPU's DRAM roof; or loops that name at most half of the
registers, and would gain 1.3 and more from the warps that these alone admit. Low occupancy with enough
in flight is not reported: many fast kernels are built that way. Where an SM has not the registers of one block, the
launch fails, and that is said instead, as it is of blocks of more threads than a card allows. Device memory measured
at 80 % of its peak or more withdraws it: enough was in flight.

**References.** CUDA C++ Best Practices Guide, "Occupancy"; Volkov, "Better Performance at Lower Occupancy".
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from warplens_tools.arch.occupancy import Occupancy, occupancy
from warplens_tools.collect import metrics as names
from warplens_tools.evidence import CompiledKernel
from warplens_tools.finding import Finding, Gain
from warplens_tools.machine.waiting import LOW_OCCUPANCY
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import CONFIRMED, EVERY, cap_gain, stalled
from warplens_tools.micro.common.serial import judge_occupancy
from warplens_tools.sass.registers import registers_of

#: Registers of the kernel over those that its loops name, from which the rest counts as code outside them, and
#: registers that the compiler needs beside those of the loops.
COLD, SPARE = 2.0, 8
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


class OccupancyRegisters(MicroTool):
    """Registers limit the warps that hide latency."""

    code = "WL201"
    slug = "occupancy-registers"
    title = "Registers limit the warps that hide latency"
    avoid = (
        "Do not force registers down until they spill; do not raise occupancy where the busiest pipe has no "
        "room left."
    )
    rule_words = "occupancy.*register"
    tiers = ("binary",)
    relevant = ("latency", "memory", "compute")
    #: Speedup in the bounded model from which that is reported: latencies are known to a fifth or so.
    worth = 1.3

    def check(self) -> Iterator[Finding]:
        """One finding per kernel."""
        if self.view.evidence.binary is None:
            return
        if (self.view.threads or 0) > self.gpu.limits.max_threads_per_block:
            yield self._too_large()
            return
        if self.threads_at_most() is not None:
            yield self._refused()
            return
        cold = self.cold_registers()
        if cold is not None:
            yield self._on_cold(cold)
            return
        found = self.view.waiting.shortage("registers") if self.view.bottleneck.bound != "compute" else None
        if found is None:
            return
        registers = found.compiled.resources.registers
        target = found.occupancy.registers_for_next_block
        more = f" At most {target} registers would admit another block." if target else ""
        yield self.finding(
            self.view.kernel.name_span,
            severity="warning" if found.occupancy.occupancy <= 0.25 else "information",
            confidence="medium",
            message=(
                f"{self.view.kernel.name} takes {registers} registers per thread, which limits occupancy to "
                f"{found.occupancy.occupancy:.0%}, and its loads do not fill the memory pipeline at that.{more}"
            ),
            guidance=(
                "Raise the bytes in flight: load more per thread before using it (unroll, vector loads), or cap the "
                "registers with __launch_bounds__(block, blocks) as far as nothing spills."
            ),
            evidence=self.view.waiting.shortage_seen(found),
            gain=found.gain,
        )

    def threads_at_most(self) -> int | None:
        """Threads of the largest block whose registers an SM has; None where it has those of the launched one, or the
        launch is not known."""
        compiled, found, limits = self.view.compiled, self.view.occupancy, self.gpu.limits
        if compiled is None or found is None or found.blocks or "registers" not in found.limiters:
            return None
        held = (
            threads
            for threads in range(limits.max_threads_per_block, 0, -limits.warp_size)
            if occupancy(limits, block_threads=threads, registers=compiled.resources.registers).blocks
        )
        return next(held, 0)

    def _too_large(self) -> Finding:
        """A launch of more threads a block than a card has at all: nothing of the kernel could be changed for it."""
        threads, most, name = (
            self.view.threads or 0,
            self.gpu.limits.max_threads_per_block,
            self.view.kernel.name,
        )
        sites = self.view.sites
        return self.finding(
            sites[0].block_span if sites else self.view.kernel.name_span,
            severity="warning",
            confidence="high",
            message=(
                f"{name} is launched with blocks of {threads} threads, more than the {most} that any block may have: "
                "the launch fails with cudaErrorInvalidConfiguration, and nothing is worked out."
            ),
            guidance=(
                f"Launch blocks of 128 to {most} threads and as many of them as the work asks for (the third argument "
                "is the bytes of shared memory); and test cudaGetLastError() behind the launch, which otherwise fails "
                "unseen."
            ),
            evidence=(self.view.observe("threads of a launched block", float(threads), "", float(most)),),
        )

    def _refused(self) -> Finding:
        """A launch that no SM has the registers for: an error of the program, which no speedup tells of."""
        compiled, threads, limits = self.view.compiled, self.view.threads, self.gpu.limits
        registers = compiled.resources.registers if compiled is not None else 0
        found, name = self.view.occupancy, self.view.kernel.name
        target = found.registers_for_next_block if found is not None else None
        kept = f", so that the compiler keeps to {target} registers a thread" if target else ""
        fewer = self.threads_at_most()
        smaller = f", or launch blocks of {fewer} threads at most" if fewer else ""
        return self.finding(
            self.view.kernel.name_span,
            severity="warning",
            confidence="high",
            message=(
                f"{name} cannot be launched as it is compiled: a block of {threads} threads with {registers} registers "
                f"each asks for more than the {limits.registers} registers of an SM, and the launch fails with "
                "cudaErrorLaunchOutOfResources."
            ),
            guidance=(
                f"Write __launch_bounds__({threads}) before its name{kept}{smaller}; and test cudaGetLastError() "
                "behind the launch, which otherwise fails unseen."
            ),
            evidence=(
                self.view.observe("registers per thread", float(registers), "", target),
                self.view.observe("threads of a launched block", float(threads or 0), "", fewer),
                self.view.observe("resident blocks per SM", 0.0),
            ),
        )

    def cold_registers(self) -> Cold | None:
        """The registers of code outside the loops, where they limit occupancy and the loops wait for want of warps.

        The loops could run with as many warps as their own registers admit: their pass then takes what the busiest pipe
        needs for the warps there are, or one warp's time in the larger company.
        """
        compiled, held = self.view.compiled, self.view.waiting.residency
        if compiled is None or held is None or not held.warps:
            return None
        found = self.view.occupancy
        used = self.loop_registers()
        if found is None or found.occupancy > LOW_OCCUPANCY or "registers" not in found.limiters:
            return None
        if not used or COLD * used > compiled.resources.registers or not self._are_loops_hot():
            return None
        better = self.view.launches.occupancy(compiled, self.gpu, registers=used + SPARE)
        shape = self.view.shape
        given = (
            -(-shape.warps // self.gpu.multiprocessors) if shape is not None else self.gpu.limits.max_warps
        )
        warps = min(better.warps, given) if better is not None else 0
        passes = [p for p in self.view.waiting.innermost_passes if p.depth and p.busy]
        if warps <= held.warps or not passes:
            return None
        worst = max(passes, key=lambda p: p.alone)
        busy = held.warps * worst.busy
        ratio = max(worst.alone, busy) / max(worst.alone * held.warps / warps, busy)
        gain = Gain.of(ratio, max(ratio, worst.alone / busy))
        return Cold(compiled, found, used, gain) if gain.estimate >= self.worth else None

    def _are_loops_hot(self) -> bool:
        """Whether most of what is executed stands in loops."""
        looped = [i for i, depth in enumerate(self.sass.flow.depths) if depth]
        return 2.0 * self.sass.weigh(looped) > sum(self.sass.weights)

    def loop_registers(self) -> int:
        """General-purpose registers that instructions in loops name."""
        inside = (x for x, depth in zip(self.sass.instructions, self.sass.flow.depths, strict=True) if depth)
        named = {name for x in inside for group in registers_of(x) for name in group}
        return sum(1 for name in named if name.startswith("R"))

    def _on_cold(self, cold: Cold) -> Finding:
        registers = cold.compiled.resources.registers
        return self.finding(self.view.kernel.name_span,
            confidence="high",
            message=(
                f"{self.view.kernel.name} takes {registers} registers per thread, of which its loops name "
                f"{cold.used}: code "
                f"outside them limits occupancy to {cold.occupancy.occupancy:.0%}, and {cold.occupancy.warps} "
                "warps do not "
                "hide what the loops wait for."
            ),
            guidance=(
                "Move what needs the registers into a kernel of its own, launched on the threads that need "
                "it, or into a "
                "__noinline__ function; or cap them with __launch_bounds__(block, blocks): what then spills stands "
                "outside the loops."
            ),
            evidence=(
                self.view.observe("theoretical occupancy", round(cold.occupancy.occupancy, 3), "", LOW_OCCUPANCY),
                self.view.observe("registers per thread", float(registers)),
                self.view.observe(OUTSIDE, float(cold.used), "", registers / COLD),
            ),
            gain=cold.gain,
        )  # fmt: skip

    def verify(self, finding: Finding) -> Finding | None:
        """As `judge_occupancy`; where loops wait for any result, by all stalls that more warps would hide."""
        counters = self.view.evidence.counters
        if counters is None or all(seen.metric != OUTSIDE for seen in finding.evidence):
            return judge_occupancy(self.view.evidence, finding)
        waits = stalled(counters, HIDDEN)
        if waits is None:
            return finding
        achieved = names.value(counters, names.ACHIEVED_OCCUPANCY)
        seen = counters.seen("stalls that other warps would hide", waits, CONFIRMED)
        return cap_gain(counters, finding, seen, EVERY, most=100.0 / achieved if achieved else float("inf"))
