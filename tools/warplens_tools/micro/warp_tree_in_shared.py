# SPDX-License-Identifier: Apache-2.0
"""warp-tree-in-shared

**What.** The lanes of a warp put their parts together by a tree in shared memory.

**Why it costs.** Each step is a store, the wait for it, and a load of what another lane has stored: some sixty cycles,
five times, where a shuffle takes the other lane's register in twenty. The array takes room, and `volatile`, without
which the compiler may keep a stale value, forbids it to keep anything. Since Volta the lanes of a warp need not run in
step: without `__syncwarp()` between reading and writing the result is a matter of chance.

**Wrong**

```cuda
volatile float *s = tile;
if (t < 32) {
    s[t] += s[t + 32]; s[t] += s[t + 16]; s[t] += s[t + 8];
    s[t] += s[t + 4]; s[t] += s[t + 2]; s[t] += s[t + 1];
}
```

**Right**

```cuda
if (t < 32) {
    float v = tile[t] + tile[t + 32];
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
}
```

**Evidence.** In the source, an element of a shared array joined with the one 16, 8, 4, 2 or 1 places on, step after
step without a barrier of the block between them, or in a loop over a distance that begins within a warp and halves.

**Threshold.** Three steps. It is information: how long the rest of the kernel is is not weighed.

**References.** CUDA C++ Programming Guide, "Warp Shuffle Functions"; Luitjens, "Faster Parallel Reductions on Kepler"
(NVIDIA, 2014); Volta tuning guide, "Independent Thread Scheduling"."""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.warp_trees import warp_trees
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool


class WarpTreeInShared(MicroTool):
    """A tree over a warp through shared memory."""

    code = "WL228"
    slug = "warp-tree-in-shared"
    title = "A warp puts its parts together through shared memory"
    avoid = "Do not shuffle under a branch that some lanes skip, nor from lanes that hold no part."
    rule_words = "shared|barrier|MIO"
    tiers = ("source", "binary")
    relevant = ("latency", "memory", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on its first such tree."""
        found = warp_trees(self.view.tree, self.view.kernel)
        if not found:
            return
        first = found[0]
        where = f" in {first.function}" if first.function else ""
        yield self.finding(
            self.view.line_span(first.span.line),
            severity="information",
            confidence="medium",
            message=(
                f"Tree of a warp through shared memory{where}: {first.steps} steps over {first.name}, each a store and "
                "the load of what another lane has stored, though lanes of one warp can read each other's registers."
            ),
            guidance=(
                "Take the last steps by shuffles: v = s[t], then v += __shfl_down_sync(~0u, v, 16) and so on to 1, "
                "without shared memory, volatile or a barrier; it is also right where lanes do not run in step."
            ),
            evidence=(
                self.view.observe(
                    "steps of a warp's tree in shared memory", float(first.steps), tier="source"
                ),
            ),
            index_query="warp shuffle reduction",
        )
