# SPDX-License-Identifier: Apache-2.0
"""sort-per-thread

**What.** Each thread sorts an array of its own by exchanges or insertions.

**Why it costs.** The steps grow with the square of the elements, each a comparison of what the step before left, and
an array that is indexed by a run-time value lives in local memory: every comparison and exchange loads and stores it.
Often the order is not wanted at all, but the median or the few smallest.

**Wrong**

```cuda
for (int p = 0; p < n; ++p)
    for (int j = 0; j < n - p - 1; ++j)
        if (v[j] > v[j + 1]) swap(v[j], v[j + 1]);
median = v[n / 2];
```

**Right**

```cuda
// keep the k best in registers while the elements come by; or a sorting network (n a constant, the loops unrolled);
// or the lanes of a warp sort one array together (bitonic, cub::WarpMergeSort); a counted median for bytes
```

**Evidence.** A loop within a loop that compares two elements of an array and stores both, or moves elements up while
they are larger than one that is inserted.

**Threshold.** None. It is information: how many elements there are is not always known.

**References.** Knuth, "The Art of Computer Programming", volume 3, section 5.3.4 (networks for sorting); CUDA C++ Best
Practices Guide, "Local Memory".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.thread_sorts import thread_sorts
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool


class SortPerThread(MicroTool):
    """Each thread sorts an array of its own."""

    code = "WL224"
    slug = "sort-per-thread"
    title = "Each thread sorts an array of its own"
    avoid = (
        "Do not select where the whole order is used later; do not change which of equal elements comes first"
        " where it matters."
    )
    rule_words = "local|diverge"
    tiers = ("source", "binary")
    relevant = ("compute", "latency", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first sort."""
        found = thread_sorts(self.view.tree, self.view.kernel)
        if not found:
            return
        first = found[0]
        yield self.finding(
            self.view.line_span(first.span.line),
            severity="information",
            confidence="low",
            message=(
                f"Each thread sorts {first.name} by itself: the steps grow with the square of its elements, each waits "
                "for the one before, and lanes exchange at different steps."
            ),
            guidance=(
                "Where only the best few or the median is wanted, keep these alone (a running list in registers, "
                "partial selection); for a constant number unroll a sorting network; else let a warp sort one array "
                "together (bitonic, cub::WarpMergeSort)."
            ),
            evidence=(self.view.observe("sorts in nested loops", float(len(found)), tier="source"),),
        )
