# SPDX-License-Identifier: Apache-2.0
"""host-sync-in-loop

**What.** A host loop waits for the device in every iteration: it launches a short kernel, then calls
`cudaDeviceSynchronize`, `cudaStreamSynchronize`, or a blocking `cudaMemcpy`.

**Why it costs.** The device idles from the end of a kernel until the host has woken, gone around the loop
and launched again: some 5 to 10 microseconds each time. Launches to one stream are in order anyway.

**Wrong**

```cuda
for (int step = 0; step < steps; ++step) {
    advance<<<grid, block>>>(field, n);
    cudaDeviceSynchronize();
}
```

**Right**

```cuda
for (int step = 0; step < steps; ++step) advance<<<grid, block>>>(field, n);
cudaDeviceSynchronize();
```

**Evidence.** The loop around the launch (or around the calls of its function) and the waits in it; the kernel's
duration, measured, or estimated where the grid and the kernel's loops are constant.

**Threshold.** A tenth of an iteration. Where the duration is not known it is information of low confidence, and it
is information where the host works in the loop too;
loops that take times themselves are left alone. A timeline that shows the device idle for waits less than a tenth of
its span withdraws it.

**References.** CUDA C++ Best Practices Guide, "Asynchronous and Overlapping Transfers with Computation"; CUDA C++
Programming Guide, "Streams".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.arch.gpu import Costs
from warplens_tools.cuda.facts.host_loops import HostCall, HostLoop
from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding, Gain, RelatedSpan
from warplens_tools.machine.launch_cost import HOST_WORK, Repeated
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import judge_by_idle

_SET = re.compile(r"\b([A-Za-z_]\w*)\s*=(?!=)")


class HostSyncInLoop(MicroTool):
    """The host waits for the device in every iteration."""

    code = "WL402"
    slug = "host-sync-in-loop"
    title = "The host waits for the device in every iteration"
    avoid = "Do not remove the wait before the host reads a result."
    of_program = True
    tiers = ("source", "binary", "timing", "timeline")
    relevant = ("launch", "latency", "memory", "compute")
    judges = (judge_by_idle("synchronisation"),)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the wait."""
        repeated = self.view.launching.repeated
        if repeated is None:
            return
        waits = repeated.waits
        if not waits:
            return
        ratio = 1.0
        if repeated.duration_ns is not None:
            ratio = wait_ratio(repeated, self.gpu.costs)
            if ratio < self.worth:
                return
        wait = waits[0]
        more = repeated.loop.launches - 1
        others = f" and {more} more" if more > 0 else ""
        inside = f" (in {self.view.said(wait.span).split('(')[0]})" if wait in repeated.loop.inside else ""
        # A function that waits does so for whatever the loop launched, of which this kernel may be the least.
        known = repeated.duration_ns is not None and not (inside and others)
        copies = wait.name == "cudaMemcpy"
        both = copies and any(_brings(c, repeated.loop) for c in repeated.loop.calls)
        yield self.finding(
            wait.span,
            severity="warning" if known else "information",
            confidence=("medium" if copies or repeated.loop.launches > 1 else "high") if known else "low",
            message=(
                f"{wait.name}{inside} makes the host wait in every iteration of the loop that launches "
                f"{self.view.kernel.name}: "
                + (
                    "arrays go to the device and back for each, over a link that is slower than its memory."
                    if both
                    else "the device idles until the next launch reaches it."
                )
            ),
            guidance=(
                "Keep the arrays on the device for all iterations, do what the host does with them in a kernel, and "
                "read back once after the loop, or a single number now and then."
                if both
                else "Read the result back every tenth or hundredth iteration, or decide on the device (a flag in "
                "mapped memory, a conditional graph node)."
                if copies
                else "Remove it: launches to one stream run in order. Wait once, after the loop, before the host reads."
            ),
            evidence=self._observations(repeated, len(waits)),
            gain=Gain.of(ratio, ratio) if known else None,
            missing=(HOST_WORK,) if repeated.loop.works else (),
            related=(RelatedSpan(repeated.loop.span, "the loop"),),
        )

    def _observations(self, repeated: Repeated, count: int) -> tuple[Observation, ...]:
        seen = [self.view.observe("waits per iteration", float(count), "", 0.0, tier="source")]
        if repeated.duration_ns is not None:
            tier, origin = self.view.launching.duration_origin
            seen.append(
                Observation(
                    tier,
                    origin,
                    "duration of one launch",
                    round(repeated.duration_ns),
                    "ns",
                    self.gpu.costs.host_wait_ns,
                    "idle time of the device per wait",
                )
            )
        return tuple(seen)


def _brings(call: HostCall, loop: HostLoop) -> bool:
    """Whether a call copies a whole array to the device: no single value, and no part that the iteration chooses."""
    if call.name != "cudaMemcpy" or "HostToDevice" not in call.arguments:
        return False
    counters = set(_SET.findall(loop.header))
    return not re.search(r",\s*&", call.arguments) and not counters & set(re.findall(r"\w+", call.arguments))


def wait_ratio(repeated: Repeated, costs: Costs) -> float:
    """An iteration's time with the wait over that without, when all its kernels last as long as this one."""
    assert repeated.duration_ns is not None, "asked only of known durations"
    kernels = max(repeated.loop.launches, 1)
    copies = [c for c in repeated.loop.calls if c.name.startswith("cudaMemcpy") and c not in repeated.waits]
    # What the loop copies besides takes its time either way.
    stays = len(copies) * costs.launch_ns
    busy = kernels * max(repeated.duration_ns, costs.launch_ns)
    return (kernels * repeated.duration_ns + costs.host_wait_ns + stays) / (busy + stays)
