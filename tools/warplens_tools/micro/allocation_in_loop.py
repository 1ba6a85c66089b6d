# SPDX-License-Identifier: Apache-2.0
"""allocation-in-loop

**What.** A host loop that launches a kernel allocates or frees device memory in each iteration.

**Why it costs.** `cudaMalloc` takes tens to hundreds of microseconds in the driver, and `cudaFree` waits until the
device is done: no iteration's work overlaps the next one's, however short the kernel is.

**Wrong**

```cuda
for (int i = 0; i < parts; ++i) {
    cudaMalloc(&d, bytes);
    work<<<grid, block>>>(d, i);
    cudaFree(d);
}
```

**Right**

```cuda
cudaMalloc(&d, bytes);                                  // once, of the largest size; or cudaMallocAsync from a pool
for (int i = 0; i < parts; ++i) work<<<grid, block>>>(d, i);
cudaFree(d);
```

**Evidence.** Calls of the runtime's allocators in the loop around the launch, or in the function that the loop calls; a
function that allocates and frees what it launches on, which no single call of the file explains.

**Threshold.** None: what an iteration takes besides is not weighed, so it is information, on the first kernel that the
loop launches. Loops that take times or record a graph are left alone.

**References.** CUDA C++ Programming Guide, "Stream Ordered Memory Allocator"; CUDA C++ Best Practices Guide, "Memory
Optimizations".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.host_loops import launch_loop
from warplens_tools.cuda.facts.kept_arrays import allocated_per_call
from warplens_tools.finding import Finding, RelatedSpan
from warplens_tools.micro.base import MicroTool

_CALLS = ("cudaMalloc", "cudaFree", "cudaMallocManaged", "cudaMallocPitch", "cudaMallocHost", "cudaHostAlloc")


class AllocationInLoop(MicroTool):
    """Device memory is allocated or freed in every iteration."""

    code = "WL407"
    slug = "allocation-in-loop"
    title = "A host loop allocates device memory in every iteration"
    avoid = (
        "Do not reuse a buffer whose earlier contents an iteration relies on being fresh; do not free it "
        "while a kernel may still run."
    )
    of_program = True
    tiers = ("source", "binary")
    relevant = ("launch", "latency", "memory", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per loop, on its first such call; else one per function that allocates at each of its calls."""
        found = list(self._looped())
        yield from found or self._per_call()

    def _per_call(self) -> Iterator[Finding]:
        """A function between host code and kernel that allocates what it launches on, and frees it before it returns:
        each of its calls pays for that. Not where the file shows that it is called once."""
        for site in self.view.sites:
            held = allocated_per_call(self.view.tree, site) if not site.path else None
            if held is None or any(
                held.span.contains(s.span) and s.span < site.span for s in self.view.model.launches
            ):
                continue
            arrays = ", ".join(held.arrays)
            yield self.finding(
                held.first,
                severity="information",
                confidence="low",
                message=(
                    f"Allocation in each call: {held.function} allocates {arrays} for its launch of "
                    f"{self.view.kernel.name} and frees it again, and cudaFree waits for the device."
                ),
                guidance=(
                    f"Keep {arrays} between calls (allocated by who calls, or once and grown where it is too small), "
                    "or take cudaMallocAsync, which keeps what was freed in a pool."
                ),
                evidence=(
                    self.view.observe(
                        "arrays allocated and freed in a call",
                        float(len(held.arrays)),
                        "",
                        0.0,
                        tier="source",
                    ),
                ),
            )
            return

    def _looped(self) -> Iterator[Finding]:
        for site in self.view.sites:
            loop = launch_loop(self.view.tree, site) if not site.path else None
            calls = loop.named(*_CALLS) if loop is not None else ()
            if loop is None or not calls or loop.timed or loop.captured:
                continue
            if any(loop.span.contains(s.span) and s.span < site.span for s in self.view.model.launches):
                continue
            names = " and ".join(dict.fromkeys(c.name for c in calls))
            yield self.finding(
                calls[0].span,
                severity="information",
                confidence="medium",
                message=(
                    f"Allocation in a loop: each iteration of the loop that launches {self.view.kernel.name} calls "
                    f"{names}, which hold up the host and wait for the device."
                ),
                guidance=(
                    "Allocate once before the loop, of the largest size that an iteration needs, and free after it; "
                    "where sizes are not known, take cudaMallocAsync, which keeps what was freed in a pool."
                ),
                evidence=(
                    self.view.observe(
                        "allocations in an iteration", float(len(calls)), "", 0.0, tier="source"
                    ),
                ),
                related=(RelatedSpan(loop.span, "the loop"),),
            )
            return
