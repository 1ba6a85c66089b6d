# SPDX-License-Identifier: Apache-2.0
"""window-loads

**What.** Each thread goes through a window of elements around its own in global memory: a blur, a stencil, a median, a
convolution. The threads beside it load nearly the same elements.

**Why it costs.** With a window of 5 x 5 each element is loaded by 25 threads. The L1 serves most of these loads, but
each takes a place in its queue, an address with its clamp at the border, and a latency; narrow elements make a request
that fills a part of a line.

**Wrong**

```cuda
for (int dy = -2; dy <= 2; ++dy)
    for (int dx = -2; dx <= 2; ++dx) sum += w[dy + 2][dx + 2] * in[(y + dy) * pitch + x + dx];
```

**Right**

```cuda
__shared__ float tile[8 + 4][32 + 4];                   // the block's elements with a halo, loaded once
// or a thread makes several outputs of a column, and keeps the rows that they share in registers
```

**Evidence.** Two nested loops whose variables are added to places of the thread's own, or one of them, or a loop from
before such a place to behind it, and a read of what is not known to be shared memory that they move; of shared memory
too where a single loop adds up what it reads as it is; reads of one array, in a kernel without shared memory, whose
indices are constants or rows of the threads apart.

**Threshold.** Three taps a row of two loops, nine of one; four elements of a stencil over rows, nine along one. Loops
of more than 64 iterations go through data, and are left alone. It is information: how much of it the L1 hides is not
known from the text.

**References.** CUDA C++ Programming Guide, "Shared Memory"; Podlozhnyuk, "Image Convolution with CUDA".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.stencils import Stencil, stencils
from warplens_tools.cuda.facts.windows import Window, windows
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.missing_cache_reuse import MissingCacheReuse


class WindowLoads(MicroTool):
    """Windows around each thread's element are read from global memory."""

    code = "WL121"
    slug = "window-loads"
    title = "Neighbouring threads load the same window of global memory"
    avoid = (
        "Do not stage a window in shared memory without its halo; do not split weights into two passes that "
        "are no product."
    )
    rule_words = "L1|cache|locality"
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first such read."""
        found = windows(self.view.tree, self.view.kernel)
        around = () if found else stencils(self.view.accesses)
        if not (found or around) or MissingCacheReuse.told(self.view):
            return
        if found:
            yield self._window(found[0])
        else:
            yield self._stencil(around[0])

    def _window(self, first: Window) -> Finding:
        taps = taps_of(first)
        if first.summed:
            return self._sum(first, taps)
        return self.finding(
            first.span,
            severity="information",
            confidence="low",
            message=(
                f"Window {taps} of {first.name} around each thread's own element, from global memory: the threads "
                "beside it load nearly all of it again."
            ),
            guidance=(
                "Load the block's elements and their halo into shared memory once, or let a thread make several "
                "outputs and keep what their windows share in registers; only blocks at the border need the clamp. "
                "Where the weights are a product of a row's and a column's, do it in two passes of one dimension each."
            ),
            evidence=(self.view.observe("window", taps, tier="source"),),
            index_query="stencil shared memory halo",
        )

    def _sum(self, first: Window, taps: str) -> Finding:
        """A window whose elements are added up as they are."""
        place = "shared" if first.shared else "global"
        return self.finding(
            first.span,
            severity="information",
            confidence="low",
            message=(
                f"Sum of a window {taps} of {first.name} around each thread's own element, from {place} memory: the "
                "sums of neighbours have all but one element in common, and each adds them up anew."
            ),
            guidance=(
                f"Work out the prefix sums of {first.name} once (a scan of the block, or cub::DeviceScan), of which "
                "each window is a difference of two; or let a thread make several outputs in a row and keep a running "
                "sum, one element added and one taken off."
            ),
            evidence=(self.view.observe("window", taps, tier="source"),),
            index_query="prefix sum scan block",
        )

    def _stencil(self, first: Stencil) -> Finding:
        name = first.access.name
        return self.finding(
            first.access.span,
            severity="information",
            confidence="low",
            message=(
                f"Stencil of {first.elements} neighbouring elements of {name}, from global memory: the threads beside "
                "it load them too, and work out again what they make of each."
            ),
            guidance=(
                f"Load the block's elements of {name} and their halo into shared memory once, and what is worked out "
                "of an element with them; in three dimensions let a thread walk along the slowest axis and keep the "
                "planes that it has in registers."
            ),
            evidence=(self.view.observe("elements of the stencil", float(first.elements), tier="source"),),
            index_query="stencil shared memory halo",
        )


def taps_of(window: Window) -> str:
    """ "of 5 x 5 elements", or over which variables, of a window."""
    if window.outer is None:
        return f"of {window.inner.trips} elements" if window.inner.trips else f"over {window.inner.variable}"
    rows, columns = window.outer.trips, window.inner.trips
    return (
        f"of {rows} x {columns} elements"
        if rows and columns
        else f"over {window.outer.variable} and {window.inner.variable}"
    )
