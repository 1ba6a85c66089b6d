# SPDX-License-Identifier: Apache-2.0
"""occupancy-shared-memory

**What.** The shared memory a block takes leaves room for few blocks on an SM, and their warps do not keep
enough memory requests in flight to reach the memory roof.

**Why it costs.** Shared memory of an SM is divided among its resident blocks. One block of a few warps
cannot hide the latency of its own loads, and a barrier stops all of them at once.

**Wrong**

```cuda
__shared__ float tile[128][96];        // 48 KB for 128 threads: 4 blocks, 16 warps of 64
```

**Right**

```cuda
__shared__ float tile[64][96];         // 24 KB: 9 blocks
```

**Evidence.** Static shared memory from ptxas, dynamic from the launch, the architecture's capacity with
what the system reserves per block; the bytes of the loads in the hot loop.

**Threshold.** As for occupancy-registers, with shared memory as the limit. Device memory measured
at 80 % of its peak or more withdraws it: enough was in flight.

**References.** CUDA C++ Best Practices Guide, "Effects of Shared Memory"; "Occupancy".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.model import LaunchSite
from warplens_tools.cuda.values.constants import constants_of
from warplens_tools.finding import Finding, RelatedSpan
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.serial import judge_occupancy
from warplens_tools.text import Span


class OccupancySharedMemory(MicroTool):
    """Shared memory limits the warps that hide latency."""

    code = "WL202"
    slug = "occupancy-shared-memory"
    title = "Shared memory limits the warps that hide latency"
    avoid = "Do not shrink the tile so far that its data is read more often from global memory."
    rule_words = "occupancy.*shared memory"
    tiers = ("binary",)
    relevant = ("latency", "memory")
    judges = (judge_occupancy,)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the launch that asks for most of it, else on its shared array."""
        found = self.view.waiting.shortage("shared memory")
        if found is None or self.view.evidence.binary is None:
            return
        dynamic = self.view.launches.dynamic_shared_bytes or 0
        shared = found.compiled.resources.shared_bytes + dynamic
        sites = self.view.sites
        target = found.occupancy.shared_bytes_for_next_block
        more = f" At most {target} bytes would admit another block." if target else ""
        arrays = [a for a in self.view.kernel.arrays if a.space == "shared"]
        yield self.finding(
            (
                self._asked(sites[0])
                if sites and 2 * dynamic > shared
                else arrays[0].span
                if len(arrays) == 1
                else self.view.kernel.name_span
            ),
            severity="warning" if found.occupancy.occupancy <= 0.25 else "information",
            confidence="medium",
            message=(
                f"{self.view.kernel.name} takes {shared} bytes of shared memory per block, which limits occupancy to "
                f"{found.occupancy.occupancy:.0%}, and its loads do not fill the memory pipeline at that.{more}"
            ),
            guidance=(
                "Give a block more threads for the same tile, a smaller tile, or overlap its loads with its work "
                "(two stages and cp.async)."
            ),
            evidence=self.view.waiting.shortage_seen(found),
            gain=found.gain,
            related=tuple(RelatedSpan(a.span, f"{a.name} takes shared memory") for a in arrays[1:]),
        )

    def _asked(self, site: LaunchSite) -> Span:
        """Where the amount that a launch asks for is written: the declaration of the name it gives, else the launch."""
        tree = self.view.tree
        name, at = site.shared.strip(), self.view.text.offset(site.span.line, site.span.column)
        found = constants_of(tree).binding(name, at) if name.isidentifier() else None
        return site.span if found is None or found.value is None else tree.text_span(*found.declaration)
