# SPDX-License-Identifier: Apache-2.0
"""sums-on-host

**What.** The blocks of a launch store one partial result each, and the host copies these back and adds them up.

**Why it costs.** The copy waits for the kernel and crosses the link, some ten microseconds for a few kilobytes, and the
host then adds one number after another; what the device does next waits for the number to come back. The device adds
the partial results in two or three microseconds, where they are.

**Wrong**

```cuda
sums<<<blocks, 256>>>(partial, in, n);
cudaMemcpy(h, partial, blocks * sizeof(float), cudaMemcpyDeviceToHost);
for (int b = 0; b < blocks; ++b) total += h[b];
```

**Right**

```cuda
if (threadIdx.x == 0) atomicAdd(total, block_sum);  // an atomic a block; or a second launch of one block; or cub
```

**Evidence.** An array that the kernel stores at the block's number alone; a copy of it to the host in the function of
the launch or in one that this calls, and a loop there that adds up what was copied.

**Threshold.** None: it is information, for how often the function is called is not known.

**References.** Harris, "Optimizing Parallel Reduction in CUDA"; CUB, `DeviceReduce`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.cuda.facts.host_loops import host_scope
from warplens_tools.cuda.model import LaunchSite
from warplens_tools.cuda.syntax.callees import directly_called
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool

#: `cudaMemcpy(host, device, …, cudaMemcpyDeviceToHost)`, also through `&host[0]` and `host.data()`.
_COPY = re.compile(
    r"\bcudaMemcpy(?:Async)?\s*\(\s*&?\s*(\w+)[^,;]*,\s*(\w+)\s*,[^;]*?\bcudaMemcpyDeviceToHost\b"
)


class SumsOnHost(MicroTool):
    """Partial results of blocks are added up by the host."""

    code = "WL410"
    slug = "sums-on-host"
    title = "Partial results of blocks are added up by the host"
    avoid = (
        "Do not leave a total from the launch before in what an atomic adds to; do not add floats in an order"
        " that a test counts on."
    )
    of_program = True
    tiers = ("source", "binary")
    relevant = ("launch", "latency", "memory", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on its first such launch."""
        names = [p.name for p in self.view.kernel.parameters]
        parts = self._parts()
        for site in self.view.sites if parts else ():
            passed = dict(zip(names, (a.strip() for a in site.arguments), strict=False))
            added = self._added(site, {passed[n] for n in parts if n in passed})
            if added:
                yield self._told(site, *added)
                return

    def _told(self, site: LaunchSite, host: str, device: str) -> Finding:
        return self.finding(
            site.span,
            severity="information",
            confidence="low",
            message=(
                f"Partial sums to the host: {self.view.kernel.name} leaves one number a block in {device}, which is "
                f"copied to {host} and added up there, one after another."
            ),
            guidance=(
                "Add the blocks' numbers up on the device: by one atomicAdd a block, by a second launch of one block, "
                "or by cub::DeviceReduce; and leave the total there for what uses it next."
            ),
            evidence=(self.view.observe("array of partial sums", device, tier="source"),),
            index_query="device reduce",
        )

    def _parts(self) -> frozenset[str]:
        """Arrays that are stored at the block's number alone, and nowhere else."""
        stored: dict[str, bool] = {}
        for a in self.view.global_accesses:
            if a.writes:
                kinds = {s.kind for s in a.index.symbols} if a.index is not None else set()
                own = "block" in kinds and kinds <= {"block", "grid size", "parameter"}
                stored[a.name] = stored.get(a.name, True) and own and not a.atomic
        return frozenset(name for name, own in stored.items() if own)

    def _added(self, site: LaunchSite, passed: set[str]) -> tuple[str, str] | None:
        """The host's and the device's array, where the code around the launch copies one and adds it up."""
        scope = host_scope(self.view.tree, site.span)
        scope += "\n".join(self.view.tree.code_of(f) for f in directly_called(self.view.tree, scope))
        for host, device in _COPY.findall(scope):
            if device in passed and re.search(
                rf"\+=[^;]*\b{host}\s*\[|\baccumulate\s*\([^;]*\b{host}\b", scope
            ):
                return host, device
        return None
