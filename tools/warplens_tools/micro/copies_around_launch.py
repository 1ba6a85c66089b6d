# SPDX-License-Identifier: Apache-2.0
"""copies-around-launch

**What.** A host function copies a kernel's input to the device, launches it, and copies the result back, each time that
it is called.

**Why it costs.** The link to the host brings some 25 to 60 GB/s, device memory over 3000: where a kernel goes through
its data a few times, the copies take tens of times as long as it does, and the host waits for each of them.

**Wrong**

```cuda
void step(Atoms *a) {                       // for every time step
    cudaMemcpy(a->d_x, a->x, bytes, cudaMemcpyHostToDevice);
    force<<<grid, block>>>(a->d_x, a->d_f, a->n);
    cudaMemcpy(a->f, a->d_f, bytes, cudaMemcpyDeviceToHost);
}
```

**Right**

```cuda
force<<<grid, block>>>(d_x, d_f, n);        // the state stays on the device,
integrate<<<grid, block>>>(d_x, d_v, d_f, n);   // and what the host did with the result is a kernel too
```

**Evidence.** Copies in both directions in the host function that launches the kernel, before and after the launch.

**Threshold.** Four launches in the function at most, none of them in a loop; `main`, which is called once, is left
alone. It is information: how often the function is called, and how large the arrays are, is not known.

**References.** CUDA C++ Best Practices Guide, "Data Transfer Between Host and Device".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.copies_around import copies_around
from warplens_tools.finding import Finding, RelatedSpan, count
from warplens_tools.micro.base import MicroTool

_SHOWN = 4


class CopiesAroundLaunch(MicroTool):
    """Input and output cross the link to the host at every call."""

    code = "WL409"
    slug = "copies-around-launch"
    title = "Data crosses the link to the host around each launch"
    avoid = (
        "Do not drop a copy whose result the host reads; do not keep on the device what the host changes in "
        "between."
    )
    of_program = True
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on its first launch between copies."""
        for site in self.view.sites:
            into, out = copies_around(self.view.tree, self.view.model, site)
            if not into or not out:
                continue
            yield self.finding(
                site.span,
                severity="information",
                confidence="low",
                message=(
                    f"Every call of {site.host_function} copies {count(len(into), 'array')} to the device for "
                    f"{self.view.kernel.name} and {count(len(out), 'array')} back: over the link to the host, at a "
                    "fiftieth of device memory's bandwidth, which may take longer than the kernel."
                ),
                guidance=(
                    "Keep the arrays on the device from call to call and do on it what the host does with the result; "
                    "else copy only what changed, from pinned memory, on streams beside other work."
                ),
                evidence=(
                    self.view.observe("copies around the launch", float(len(into) + len(out)), tier="source"),
                ),
                related=tuple(RelatedSpan(c.call.span, "a copy") for c in (*into, *out)[:_SHOWN]),
            )
            return
