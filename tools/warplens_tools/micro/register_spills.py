# SPDX-License-Identifier: Apache-2.0
"""register-spills

**What.** The compiler ran out of registers and keeps values in local memory: `STL`/`LDL` instructions
that the source never asked for, counted by ptxas as spill stores and loads.

**Why it costs.** Local memory is device memory behind the L1 cache. A spill in a hot loop adds a
round trip of tens of cycles where it hits L1 and hundreds where it does not, and its traffic
competes with the loads the kernel needs.

**Wrong**

```cuda
__global__ void __launch_bounds__(1024, 2) k(...)   // at most 32 registers per thread
{
    float window[48];                                // wants at least 48
```

**Right**

```cuda
__global__ void __launch_bounds__(256, 2) k(...)    // at most 128 registers per thread
```

**Evidence.** ptxas' spill stores and loads in bytes; the `STL`/`LDL` instructions on the stack pointer
and the loops they stand in; the register cap that `__launch_bounds__` implies.

**Threshold.** Any spill is reported. It is a warning where a spill stands in a loop or more than 64 bytes are
spilled, because a few bytes outside loops cost less than can be measured. Instantiations whose launch bounds
no block can have are left alone. Counters that show no sector of local
memory moved withdraw it.

**References.** CUDA C++ Programming Guide, "Launch Bounds"; CUDA C++ Best Practices Guide, "Register
Pressure"; ptxas option `-v`.
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.evidence import CompiledKernel, Observation
from warplens_tools.finding import Finding, RelatedSpan
from warplens_tools.machine.local_memory import local_gain
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import judge_by_local
from warplens_tools.sass.pipes import on_stack

#: Spilled bytes outside loops that are still only an information.
QUIET_BYTES = 64


class RegisterSpills(MicroTool):
    """Registers spill to local memory."""

    code = "WL109"
    slug = "register-spills"
    title = "Registers spill to local memory"
    avoid = "Do not unroll further; do not raise the minimum of blocks in the launch bounds."
    rule_words = "spill|local memory"
    tiers = ("binary",)
    relevant = ("memory", "latency", "compute")
    judges = (judge_by_local,)

    def check(self) -> Iterator[Finding]:
        """One finding for the instantiation that spills most."""
        worst = self.view.compiled
        if worst is None or (worst.max_threads or 0) > self.gpu.limits.max_threads_per_block:
            return  # No block of so many threads can be launched.
        resources = worst.resources
        spilled = resources.spill_store_bytes + resources.spill_load_bytes
        if not spilled:
            return
        spills = spill_indices(worst)
        hot = self.sass.hottest_line(spills)
        in_loop = any(self.sass.flow.depths[i] for i in spills)
        cap = self.register_cap()
        bounds = self.view.kernel.launch_bounds
        related = []
        if hot is not None and bounds is not None:
            related.append(RelatedSpan(self.view.line_span(hot), "most of the spill traffic is on this line"))
        yield self.finding(
            bounds.span if bounds is not None and bounds.span is not None and cap else hot,
            severity="warning" if in_loop or spilled > QUIET_BYTES else "information",
            confidence="high",
            message=self._message(worst, cap),
            guidance=self._guidance(worst, cap),
            evidence=self._observations(worst, cap, in_loop if spills else None),
            gain=local_gain(self.view, spills, self.view.traffic.cycles()),
            related=tuple(related),
        )

    def register_cap(self) -> int | None:
        """Registers per thread that `__launch_bounds__` leaves, in the allocation's own steps."""
        bounds = self.view.kernel.launch_bounds
        if bounds is None or bounds.max_threads_value is None:
            return None
        limits = self.gpu.limits
        warps = -(-bounds.max_threads_value // limits.warp_size) * (bounds.min_blocks_value or 1)
        per_warp = limits.registers // warps
        step = limits.register_allocation_unit // limits.warp_size
        return min(per_warp // limits.warp_size // step * step, limits.max_registers_per_thread)

    def _message(self, worst: CompiledKernel, cap: int | None) -> str:
        r = worst.resources
        text = (
            f"{self.view.kernel.name} spills {r.spill_store_bytes} bytes of stores and {r.spill_load_bytes} bytes of "
            f"loads per thread to local memory at {r.registers} registers per thread"
        )
        given = self.view.template_arguments if len(self.view.evidence.compiled) > 1 else {}
        if given:
            text += f", with {', '.join(f'{name} = {value}' for name, value in given.items())}"
        bounds = self.view.kernel.launch_bounds
        if bounds is not None and cap is not None and r.registers >= cap - 1:
            blocks = f", {bounds.min_blocks}" if bounds.min_blocks else ""
            text += f"; __launch_bounds__({bounds.max_threads}{blocks}) allows no more than {cap}"
        return text + "."

    def _guidance(self, worst: CompiledKernel, cap: int | None) -> str:
        if (
            cap is not None
            and worst.resources.registers >= cap - 1
            and cap < self.gpu.limits.max_registers_per_thread
        ):
            return (
                "Ask for fewer threads or fewer resident blocks in __launch_bounds__ so that the compiler may use "
                "more registers; lower occupancy without spills is usually the faster side of the trade."
            )
        arrays = [a.name for a in self.view.kernel.arrays if a.space == "local"]
        kept = f" (here {', '.join(arrays)})" if arrays else ""
        return (
            f"Keep fewer values alive at once: a smaller per-thread tile{kept}, less unrolling of the hot loop, or "
            "recompute a cheap value instead of holding it; -maxrregcount, if it is set, can be raised."
        )

    def _observations(
        self, worst: CompiledKernel, cap: int | None, in_loop: bool | None
    ) -> tuple[Observation, ...]:
        r, see = worst.resources, self.view.observe
        why = "" if cap is None else "the cap that __launch_bounds__ implies"
        limit = None if cap is None else float(cap)
        seen = [
            see("spill stores", float(r.spill_store_bytes), "byte/thread", 0.0, "ptxas -v"),
            see("spill loads", float(r.spill_load_bytes), "byte/thread", 0.0, "ptxas -v"),
            see("registers per thread", float(r.registers), "", limit, why),
        ]
        if in_loop is not None:
            seen.append(see("spills inside a loop", "yes" if in_loop else "no"))
        return tuple(seen)


def spill_indices(compiled: CompiledKernel) -> list[int]:
    """Indices of spill stores and refills: as nvdisasm marks them, else local accesses on the stack pointer
    where ptxas reports spills at all (older ones of nvdisasm mark none)."""
    marked = [i for i, x in enumerate(compiled.instructions) if x.spill]
    resources = compiled.resources
    if marked or not resources.spill_store_bytes + resources.spill_load_bytes:
        return marked
    return [
        i
        for i, x in enumerate(compiled.instructions)
        if x.opcode in {"STL", "LDL"} and any(on_stack(o) for o in x.operands)
    ]
