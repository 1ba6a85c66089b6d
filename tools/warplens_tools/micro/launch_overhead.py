# SPDX-License-Identifier: Apache-2.0
"""launch-overhead

**What.** A host loop launches a kernel that is done before the next launch has reached the device.

**Why it costs.** A launch costs the host two to three microseconds. A kernel that works less than that leaves
the device waiting for launches, and the loop takes as long as launching does.

**Wrong**

```cuda
for (int step = 0; step < steps; ++step)
    relax<<<4, 256>>>(cells, 1024);             // a microsecond of work per launch
```

**Right**

```cuda
relax_steps<<<1, 1024>>>(cells, 1024, steps);   // the loop inside the kernel, or the launches in a CUDA graph
```

**Evidence.** The loop around the launch; the kernel's duration, measured, or estimated where the grid and the
kernel's loops are constant.

**Threshold.** A duration below the cost of a launch. A loop that waits for the device in each iteration is
reported as host-sync-in-loop; loops that copy and wait for it, loops of fewer than 16 iterations,
and loops with further kernels, which may hide
the launch, not at all. A timeline that shows the device idle for launches less than a tenth of
its span withdraws it.

**References.** CUDA C++ Programming Guide, "CUDA Graphs"; NVIDIA Technical Blog, "Getting Started with CUDA Graphs".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.arch.gpu import SHORTEST_KERNEL_NS
from warplens_tools.cuda.facts.host_loops import HostLoop
from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding, Gain, RelatedSpan
from warplens_tools.machine.launch_cost import HOST_WORK
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import judge_by_idle


class LaunchOverhead(MicroTool):
    """A loop launches a kernel shorter than its launch."""

    code = "WL401"
    slug = "launch-overhead"
    title = "A loop launches a kernel shorter than its launch"
    avoid = "Do not use grid-wide synchronisation with more blocks than are resident together."
    of_program = True
    tiers = ("binary", "timing")
    relevant = ("launch", "latency", "memory", "compute")
    judges = (judge_by_idle("launch"),)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on its launch."""
        repeated = self.view.launching.repeated
        if (
            repeated is None
            or repeated.duration_ns is None
            or repeated.duration_ns >= self.gpu.costs.launch_ns
        ):
            return
        if repeated.waits or repeated.loop.launches > 1 or _copies(repeated.loop):
            return
        ratio = self.gpu.costs.launch_ns / min(repeated.duration_ns, SHORTEST_KERNEL_NS)
        site = self.view.sites[0]
        tier, origin = self.view.launching.duration_origin
        yield self.finding(
            site.span,
            confidence="medium" if tier == "binary" else "high",
            message=(
                f"Each launch of {self.view.kernel.name} in this loop works for about "
                f"{repeated.duration_ns / 1e3:.1f} us, "
                f"less than the {self.gpu.costs.launch_ns / 1e3:.1f} us that launching it costs."
            ),
            guidance=(
                "Do several iterations per launch (the loop inside the kernel, with grid-wide "
                "synchronisation if blocks "
                "depend on each other), or capture the iterations in a CUDA graph and launch that."
            ),
            evidence=(
                Observation(
                    tier,
                    origin,
                    "duration of one launch",
                    round(repeated.duration_ns),
                    "ns",
                    self.gpu.costs.launch_ns,
                    "cost of a launch on the host",
                ),
            ),
            gain=Gain.of(ratio, 2.0 * ratio),
            missing=(HOST_WORK,) if repeated.loop.works else (),
            related=(RelatedSpan(repeated.loop.span, "the loop"),),
        )


def _copies(loop: HostLoop) -> bool:
    """Whether the loop makes blocking copies, each of which costs it more than a launch does."""
    return any(c.name.startswith("cudaMemcpy") and not c.name.endswith("Async") for c in loop.calls)
