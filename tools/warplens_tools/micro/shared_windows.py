# SPDX-License-Identifier: Apache-2.0
"""shared-windows

**What.** Each thread makes one output of a window of elements that stand in shared memory, and takes them one by one.

**Why it costs.** A window of 5 x 5 is 25 loads for 25 multiply-adds or comparisons: shared memory serves 32 lanes a
cycle where the arithmetic pipes take 128, and each load comes with its address. The window of the output beside it has
all but one row or column in common, which registers could keep; of bytes a word would bring four at once.

**Wrong**

```cuda
for (int dy = 0; dy < 5; ++dy)
    for (int dx = 0; dx < 5; ++dx) sum += weight[dy][dx] * tile[threadIdx.y + dy][threadIdx.x + dx];
```

**Right**

```cuda
for (int y = 0; y < 4 + 4; ++y) {          // a thread makes 4 outputs, one below the other
    float row[5];
    for (int dx = 0; dx < 5; ++dx) row[dx] = tile[4 * threadIdx.y + y][threadIdx.x + dx];
    for (int k = 0; k < 4; ++k)            // a row serves all outputs whose window holds it
        if (0 <= y - k && y - k < 5)
            for (int dx = 0; dx < 5; ++dx) sum[k] += weight[y - k][dx] * row[dx];
}
```

**Evidence.** Two nested loops whose variables are added to places of the thread's own, or one of them, and a read of
shared memory that they move; in SASS, the loads of that line.

**Threshold.** Five elements in a row, or three along each of two axes; a load for every element. It is information:
what else an output takes is not weighed. Sums of a window as it is are `window-loads`'.

**References.** CUDA samples, "convolutionSeparable"; Volkov, "Better Performance at Lower Occupancy" (GTC 2010)."""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.windows import Window, shared_windows
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.small_register_tile import SmallRegisterTile
from warplens_tools.micro.window_loads import WindowLoads, taps_of
from warplens_tools.sass.pipes import space_of


class SharedWindows(MicroTool):
    """One output for each window of shared memory."""

    code = "WL135"
    slug = "shared-windows"
    title = "Each output takes all elements of its window from shared memory"
    avoid = (
        "Do not let a thread's outputs lie a block's height apart: windows that have nothing in common share no load; "
        "do not split weights into two passes that are no product."
    )
    rule_words = "shared|MIO|LSU"
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first such read."""
        found = shared_windows(self.view.tree, self.view.kernel)
        if not found or any(tool.told(self.view) for tool in (SmallRegisterTile, WindowLoads)):
            return
        first = found[0]
        if self.sass and not self._loads(first):
            return
        taps, narrow = taps_of(first), self._is_narrow(first)
        words = (
            " for bytes, load words and work on four at a time (__vminu4, __vcmpgtu4, __dp4a);"
            if narrow
            else ""
        )
        yield self.finding(
            first.span,
            severity="information",
            confidence="low",
            message=(
                f"One output for each window {taps} of {first.name} in shared memory: every output takes its elements "
                "one by one, though the window of the one beside it has all but a row or column of them too."
            ),
            guidance=(
                "Let each thread make several neighbouring outputs (4 in a column or in a row) and keep what their "
                f"windows share in registers;{words} where the weights are a product of a row's and a column's, or it "
                "is a minimum, maximum or sum, do it in two passes of one dimension each."
            ),
            evidence=(self.view.observe("window", taps, tier="source"),),
            index_query="stencil shared memory halo",
        )

    def _loads(self, window: Window) -> list[int]:
        """The loads from shared memory on the line that reads the window."""
        return self.sass.on_line(
            window.span.line, lambda x: x.opcode.startswith("LD") and space_of(x) == "shared"
        )

    def _is_narrow(self, window: Window) -> bool:
        array = next((a for a in self.view.kernel.arrays if a.name == window.name), None)
        return array is not None and self.view.element_bytes(array.element_type) == 1
