# SPDX-License-Identifier: Apache-2.0
"""passes-in-a-row

**What.** A kernel reads, element by element, what the launch before it has just stored: the same grid, the same
threads, and an array of global memory between them.

**Why it costs.** The array is stored to device memory and loaded back, and the second launch costs its start-up, for
values that the thread which made them could have used at once. Kernels that go over arrays are bound by that traffic.

**Wrong**

```cuda
scale<<<grid, block>>>(t, x, n);
add<<<grid, block>>>(y, t, n);
```

**Right**

```cuda
scale_and_add<<<grid, block>>>(y, x, n);                // t stays in a register
```

**Evidence.** Two launches of one function with the same grid and block, no copy between them; the first stores an array
with neighbouring lanes side by side, the second only reads it so.

**Threshold.** None: it is information. What other elements the second kernel needs of other arrays is not weighed.

**References.** CUDA C++ Best Practices Guide, "Memory Optimizations"; Filipovic et al., "Optimizing CUDA Code by Kernel
Fusion" (2015).
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.launch_pairs import handed_on
from warplens_tools.finding import Finding, RelatedSpan
from warplens_tools.micro.base import MicroTool


class PassesInARow(MicroTool):
    """What one kernel stores the next one only reads at the same threads."""

    code = "WL406"
    slug = "passes-in-a-row"
    title = "A kernel reads element by element what the launch before it stored"
    avoid = (
        "Do not fuse where the second kernel needs elements that other blocks make, nor drop an array that is"
        " read later."
    )
    of_program = True
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on its first such launch."""
        found = handed_on(self.view.tree, self.view.model, self.view.kernel)
        if not found:
            return
        first = found[0]
        maker, arrays = first.before.kernel_name, ", ".join(dict.fromkeys(first.arrays))
        yield self.finding(
            first.after.span,
            severity="information",
            confidence="low",
            message=(
                f"Passes that could be one: {self.view.kernel.name} reads {arrays} element by element as {maker} has "
                f"just stored it (line {first.before.span.line}), with the same grid: a round trip to memory and a "
                "launch."
            ),
            guidance=(
                f"Fuse {self.view.kernel.name} into {maker}, so that each thread goes on with the values that it has; "
                f"store {arrays} only where others read it later."
            ),
            evidence=(self.view.observe("arrays handed on", arrays, tier="source"),),
            related=(RelatedSpan(first.before.span, f"{maker} stores it"),),
        )
