# SPDX-License-Identifier: Apache-2.0
"""uneven-loops

**What.** Each lane of a warp goes through a loop of a length of its own, which its data decides: the neighbours of a
vertex, the entries of a row, the steps until a value has settled or a ray has ended.

**Why it costs.** A warp runs the loop until its last lane is done, with the others masked off. Where lengths spread
like those of most graphs, or one pixel in a warp goes on to the limit, most of the issue slots do nothing; the loads of
a lane's own stretch are scattered besides.

**Wrong**

```cuda
for (int e = first[v]; e < first[v + 1]; ++e) sum += rank[target[e]];   // one thread a vertex
```

**Right**

```cuda
for (int e = first[v] + lane; e < first[v + 1]; e += 32) sum += rank[target[e]];   // a warp a vertex, then shuffles
// or vertices sorted into bins by degree, or lanes that fetch a new element as they finish
```

**Evidence.** Loops whose bound comes from what each lane loads, or whose condition, `break` or `return` tests what
their iterations work out of a lane's own values; loops of the latter kind in the device functions that it calls too.

**Threshold.** None: how the lengths spread only a run shows, so it is information. Kernels whose warps work on one
element together are left alone.

**References.** Bell and Garland, "Efficient Sparse Matrix-Vector Multiplication on CUDA" (2008); Aila and Laine,
"Understanding the Efficiency of Ray Traversal on GPUs" (2009).
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.uneven_loops import uneven_loops
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool

#: Letters of a condition that a message shows.
_SHOWN = 60


class UnevenLoops(MicroTool):
    """Lanes of a warp leave a loop at different times."""

    code = "WL217"
    slug = "uneven-loops"
    title = "Lanes of a warp go through loops of different lengths"
    avoid = (
        "Do not give a warp to rows of a few elements; do not let lanes leave a loop that others vote or "
        "shuffle in."
    )
    rule_words = "diverge|predicat|threads.*per instruction"
    tiers = ("source", "binary")
    relevant = ("compute", "latency", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first such loop."""
        found = uneven_loops(self.view.tree, self.view.kernel)
        if not found:
            return
        first = found[0]
        ends = first.condition.strip()
        while (inner := _without_brackets(ends)) != ends:
            ends = inner
        shown = ends if len(ends) <= _SHOWN else ends[: _SHOWN - 1] + "…"
        own = "each lane loads how long it is" if first.by == "length" else "each lane's data ends it"
        yield self.finding(
            self.view.line_span(first.span.line),
            severity="information",
            confidence="low",
            message=(
                f"Loop of uneven length{f' in {first.function}' if first.function else ''}: {own} ({shown}), and the "
                "warp runs on until its last lane is done."
            ),
            guidance=(
                "Give the elements of a long row to the lanes of a warp or a group, or sort or bin the rows by length, "
                "so that neighbouring lanes have alike ones."
                if first.by == "length"
                else "Let lanes that are done fetch their next element (a queue or a grid-stride loop inside), compact "
                "those that are left between rounds, or order the elements so that neighbours end alike."
            ),
            evidence=(self.view.observe("loops of uneven length", float(len(found)), tier="source"),),
        )


def _without_brackets(code: str) -> str:
    """What stands in the brackets that a whole expression stands in."""
    if not (code.startswith("(") and code.endswith(")")):
        return code
    inner, depth = code[1:-1], 0
    for char in inner:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return code
    return inner.strip()
