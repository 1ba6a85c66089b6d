# SPDX-License-Identifier: Apache-2.0
"""search-per-thread

**What.** Each thread searches by itself: a sorted array by halving, a number by counting up to it, or a drawn element
by adding up weights until they pass what was drawn.

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
function of its file that it calls, or a call of `lower_bound` and the like. A `while` that does nothing but count from
a constant until a formula of the number, or an element that it names, passes a limit; a loop that adds up elements,
which do not hang on the thread, until the sum passes one.

**Threshold.** None. It is information: how long the array is, and how much of it the caches hold, is not known.

**References.** Green, Odeh and Birk, "Merge Path - A Visually Intuitive Approach to Parallel Merging" (2014); CUDA C++
Best Practices Guide, "Memory Optimizations".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.counted_searches import counted_searches, running_sums
from warplens_tools.cuda.facts.searches import searches
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool


class SearchPerThread(MicroTool):
    """Each thread does a search of its own."""

    code = "WL218"
    slug = "search-per-thread"
    title = "Each thread does a search of its own"
    avoid = (
        "Do not stage an array in shared memory that does not fit it; do not assume that the queries are "
        "sorted."
    )
    rule_words = "long scoreboard|latency|L2"
    tiers = ("source", "binary")
    relevant = ("latency", "memory", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first search."""
        found = searches(self.view.tree, self.view.kernel)
        if not found:
            yield from self._counted()
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

    def _counted(self) -> Iterator[Finding]:
        """A search that counts up: as many steps as the answer is large."""
        found = counted_searches(self.view.tree, self.view.kernel)
        if not found:
            yield from self._summed()
            return
        first = found[0]
        loads = "each step waits for a load, and " if "[" in first.test else ""
        yield self.finding(
            self.view.line_span(first.span.line),
            severity="information",
            confidence="low",
            message=(
                f"Linear search by each thread: {first.name} is counted while {first.test}: {loads}the steps are as "
                "many as the answer is far, and a warp takes those of its farthest lane."
            ),
            guidance=(
                "Halve a range instead of counting where what is compared grows with it; solve the formula for it (a "
                "root, then a step or two to correct it); or keep the answers in a table, or go on from a neighbour's."
            ),
            evidence=(self.view.observe("searches that count", float(len(found)), tier="source"),),
        )

    def _summed(self) -> Iterator[Finding]:
        """A draw by weights: the elements are added up until the sum passes what the thread looks for."""
        found = running_sums(self.view.tree, self.view.kernel)
        if not found:
            return
        first = found[0]
        yield self.finding(
            self.view.line_span(first.span.line),
            severity="information",
            confidence="low",
            message=(
                f"Linear search by each thread: all add up the same elements into {first.name} until {first.test} "
                "decides: a load and an addition that wait for the one before in each step, and work of threads times "
                "elements in all."
            ),
            guidance=(
                "Work out the running sums once (a scan) and let each thread halve its range in them; or, where the "
                "limits are in order, go through both lists side by side."
            ),
            evidence=(self.view.observe("searches by a running sum", float(len(found)), tier="source"),),
        )
