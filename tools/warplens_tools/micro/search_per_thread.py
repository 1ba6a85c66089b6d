# SPDX-License-Identifier: Apache-2.0
"""search-per-thread

**What.** Each thread searches a sorted array by halving.

**Why it costs.** Every step waits for the load of the one before, some twenty of them one after the other for a million
elements, and from the second on the lanes of a warp are at different places, a sector each.

**Wrong**

```cuda
while (low < high) {
    int middle = (low + high) / 2;
    if (keys[middle] < key) low = middle + 1; else high = middle;
}
```

**Right**

```cuda
// keys of a block lie close together where the queries are sorted too: find the block's range once, stage it in shared
// memory, search there; or merge both lists (merge path) and search not at all
```

**Evidence.** A loop that loads at the middle of a range and moves one of its ends there, in the kernel or in a device
function of its file that it calls, or a call of `lower_bound` and the like.

**Threshold.** None. It is information: how long the array is, and how much of it the caches hold, is not known.

**References.** Green, Odeh and Birk, "Merge Path - A Visually Intuitive Approach to Parallel Merging" (2014); CUDA C++
Best Practices Guide, "Memory Optimizations".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.searches import searches
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool


class SearchPerThread(MicroTool):
    """Each thread does a binary search of its own."""

    code = "WL218"
    slug = "search-per-thread"
    title = "Each thread does a binary search of its own"
    rule_words = "long scoreboard|latency|L2"
    tiers = ("source", "binary")
    relevant = ("latency", "memory", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first search."""
        found = searches(self.view.tree, self.view.kernel)
        if not found:
            return
        first = found[0]
        yield self.finding(
            self.view.line_span(first.span.line),
            severity="information",
            confidence="low",
            message=(
                f"Binary search by each thread ({first.by}): every step waits for the load of the one before, and "
                "lanes go to different places from the second on."
            ),
            guidance=(
                "Search less: once for a block or warp where neighbours look for close keys, then within that range in "
                "shared memory; merge two sorted lists instead; or keep the upper levels of the search in shared or "
                "constant memory."
            ),
            evidence=(self.view.observe("binary searches", float(len(found)), tier="source"),),
        )
