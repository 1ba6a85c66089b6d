# SPDX-License-Identifier: Apache-2.0
"""own-slots

**What.** An array of shared memory in which each thread uses elements of its own alone: what it stores there no other
thread reads.

**Why it costs.** Shared memory serves 32 lanes a cycle and answers after some thirty cycles, where a register is there
at once. Whatever the loop does to the element is a load, an operation and a store; the array limits how many blocks an
SM holds, and barriers around it wait for nobody.

**Wrong**

```cuda
__shared__ float part[256];
part[threadIdx.x] = 0.f;
for (int k = 0; k < n; ++k) part[threadIdx.x] += x[k * 256 + threadIdx.x];
y[threadIdx.x] = part[threadIdx.x];
```

**Right**

```cuda
float part = 0.f;
for (int k = 0; k < n; ++k) part += x[k * 256 + threadIdx.x];
y[threadIdx.x] = part;
```

**Evidence.** Every place in the source that names the array, with its index as a form over the threads: of each two
threads the elements are others. Arrays that the kernel hands to a function, and elements that an atomic changes, are
left out.

**Threshold.** No more than 32 elements side by side for each thread, at constant places. An index that a loop moves is
left alone: registers have no index. It is information: what the loop waits for beside it is not weighed.

**References.** CUDA C++ Best Practices Guide, "Shared Memory"; Volkov, "Better Performance at Lower Occupancy" (GTC
2010)."""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.own_slots import own_slots
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool


class OwnSlotsInShared(MicroTool):
    """A shared array that shares nothing."""

    code = "WL134"
    slug = "own-slots"
    title = "An array of shared memory that no two threads share"
    avoid = "Do not take out a barrier that orders other arrays too; do not let a local array be indexed at run time."
    rule_words = "shared|MIO|LSU"
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first access in a loop, else on the first."""
        found = own_slots(self.view.tree, self.view.kernel, self.view.dim3)
        if not found or self.view.threads == 1:
            return
        names = ", ".join(dict.fromkeys(slots.array.name for slots in found))
        every = [a for slots in found for a in slots.accesses]
        place = next((a for a in every if a.loops), every[0])
        yield self.finding(
            place.span,
            severity="information",
            confidence="medium",
            message=(
                f"Shared memory that is not shared: each thread reads only what it stored itself in {names}, "
                f"{len(every)} accesses in all; a register would hold it."
            ),
            guidance=(
                f"Keep {names} in local variables of the thread, and take out barriers that order nothing else; shared "
                "memory is then free for more blocks."
            ),
            evidence=(
                self.view.observe(
                    "accesses to elements of the thread's own", float(len(every)), tier="source"
                ),
            ),
        )
