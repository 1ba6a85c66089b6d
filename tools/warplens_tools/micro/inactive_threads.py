# SPDX-License-Identifier: Apache-2.0
"""inactive-threads

**What.** A kernel that a host loop launches again and again begins with a test of each element's own flag, and only
threads whose flag is set have work: the frontier of a search, the vertices that changed.

**Why it costs.** Every launch reads the flag of every element, and the few that are active lie scattered over the
warps: a warp works as long as its slowest lane, with most of its lanes masked off. What is read is all elements times
the number of launches, where the work is that of the active ones.

**Wrong**

```cuda
if (!frontier[v]) return;                       // 2 of 100 threads go on
for (int e = first[v]; e < first[v + 1]; ++e) ...
```

**Right**

```cuda
int v = queue[i];                               // the active elements alone, gathered by the step before
for (int e = first[v]; e < first[v + 1]; ++e) ...
```

**Evidence.** A test of what each thread loads around what the kernel does, or a return by it, and the loop of the host
that launches it. Two elements of one array that are held against each other, as in a sort, are no such test.

**Threshold.** More than half of the kernel's instructions behind the test; without SASS, a loop behind it. It is
information: how many elements are active only a run shows.

**References.** Merrill, Garland and Grimshaw, "Scalable GPU Graph Traversal" (2012); Harish and Narayanan,
"Accelerating Large Graph Algorithms on the GPU Using CUDA" (2007).
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.worklists import Gate, gates
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool

#: Share of the kernel's instructions, as often as each runs, from which the test decides about the thread.
MOST = 0.5


class InactiveThreads(MicroTool):
    """Most threads of each launch may find nothing to do."""

    code = "WL223"
    slug = "inactive-threads"
    title = "Each launch visits all elements for the few that are active"
    avoid = (
        "Do not append an element to the list twice; do not read the length of the list on the host in every "
        "step."
    )
    rule_words = "diverge|threads.*per instruction"
    of_launch = True
    tiers = ("source", "binary")
    relevant = ("latency", "memory", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on its outermost such test."""
        if not any(site.loop_depth for site in self.view.launches.sites):
            return
        gate = next((g for g in gates(self.view.tree, self.view.kernel) if self._decides(g)), None)
        if gate is None:
            return
        text = " ".join(self.view.said(gate.condition).split()).strip("()")
        yield self.finding(
            gate.condition,
            severity="information",
            confidence="low",
            message=(
                f"{text} decides, launch after launch of the host's loop, which threads have work: all elements are "
                "visited for those that are active (no compacted frontier), and the other lanes are idle."
            ),
            guidance=(
                "Keep a list of the active elements (appended by the step that activates them, one atomic a warp) and "
                "launch threads for these alone; while most are active, go on with all of them."
            ),
            evidence=(self.view.observe("the test around the work", text, tier="source"),),
        )

    def _decides(self, gate: Gate) -> bool:
        if not self.sass:
            return any(gate.behind.contains_line(x.span.line) for a in self.view.accesses for x in a.loops)
        inside = [i for i, n in enumerate(self.sass.lines) if n is not None and gate.behind.contains_line(n)]
        every = self.sass.weigh(range(len(self.sass.instructions)))
        return self.sass.weigh(inside) >= MOST * every
