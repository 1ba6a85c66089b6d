# SPDX-License-Identifier: Apache-2.0
"""lone-thread-loop

**What.** A loop over global or shared memory stands in a branch that one thread of a block takes, or hardly more.

**Why it costs.** The other threads wait for it, or hold their registers and shared memory until it is done; its loads
come one lane at a time, a sector for each.

**Wrong**

```cuda
if (threadIdx.x == 0)
    for (int k = 0; k < n; ++k) sum += x[blockIdx.x * n + k];
```

**Right**

```cuda
for (int k = threadIdx.x; k < n; k += blockDim.x) sum += x[blockIdx.x * n + k];
sum = reduce_block(sum);                   // shuffles, then one barrier
```

**Evidence.** The conditions around the loop, worked out for every thread of a block; the loop's accesses of memory.
Else the stores of such a branch with a barrier behind it, those of the device functions that it calls included.

**Threshold.** At most an eighth of a block of two warps or more; loops of fewer than 32 iterations and branches
of fewer than 64 stores are left alone.
Where no launch tells the block, loops over the block's extents or up to what the launch passes, as information.
Information where nothing says how long the loop is: a warning needs a count, or a loop from a constant to a
parameter, for what starts or ends at a value worked out in the kernel is most often the few elements that a wide
loop leaves over. Information too where it reads shared memory alone, and where one thread adds up a part of each of
the block's after a loop of theirs whose length nothing says.

**References.** CUDA C++ Best Practices Guide, "Branching and Divergence"; Harris, "Optimizing Parallel Reduction in
CUDA"."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.facts.guards import guarded_loops
from warplens_tools.cuda.facts.lone_fills import lone_fills
from warplens_tools.cuda.values.loop_headers import Loop
from warplens_tools.finding import Finding, Gain
from warplens_tools.micro.base import MicroTool
from warplens_tools.text import Span

#: Iterations from which a loop is worth sharing out: a warp's.
LONG = 32
#: Stores of few threads, one after the other, from which a table is worth filling by all: two warps' worth.
STORES = 64
_SEEN = frozenset({"global", "shared"})
_VOTES = re.compile(r"\b__(?:any|all|ballot)(?:_sync)?\s*\(")
_GUIDANCE = (
    "Deal the iterations out to all threads of the block (from threadIdx.x on, in steps of blockDim.x) and combine "
    "their parts by shuffles."
)


class LoneThreadLoop(MicroTool):
    """A loop that one thread of the block runs for all."""

    code = "WL213"
    slug = "lone-thread-loop"
    title = "One thread runs a loop for its block"
    avoid = (
        "Do not let all threads run the loop as it is: each must take its own share, and the shares must be "
        "put together."
    )
    rule_words = "diverge|threads.*per instruction"
    of_launch = True
    tiers = ("source", "binary")
    relevant = ("latency", "memory", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on its first such loop, else on the first table that is filled so."""
        yield from list(self._loops()) or self._fills()

    def _fills(self) -> Iterator[Finding]:
        """A table that few threads fill by store after store, all others at the barrier behind it."""
        threads = self.view.threads
        if threads is not None and threads < 2 * self.gpu.limits.warp_size:
            return
        for fill in lone_fills(self.view.tree, self.view.kernel, STORES, self.view.dim3)[:1]:
            said, names = " ".join(self.view.said(fill.condition).split()), ", ".join(fill.names[:3])
            yield self.finding(
                self.view.line_span(fill.span.line),
                severity="information",
                confidence="medium",
                message=(
                    f"Only threads with {said} fill {names}, by {fill.stores} stores one after the other: the others "
                    "of the block wait for them at the barrier, in every block anew."
                ),
                guidance=(
                    "Keep what does not change in a __constant__ or __device__ table that is made once, and let all "
                    "threads of the block copy it (from threadIdx.x on, in steps of blockDim.x, 16 bytes at once); "
                    "entries that follow from others take a thread each."
                ),
                evidence=(
                    self.view.observe("condition around the stores", said, tier="source"),
                    self.view.observe(
                        "stores of few threads", float(fill.stores), "", float(STORES), tier="source"
                    ),
                ),
            )

    def _loops(self) -> Iterator[Finding]:
        """The first loop that few threads run."""
        threads = self.view.threads
        if threads is None:
            yield from self._over_block()
            return
        if threads < 2 * self.gpu.limits.warp_size:
            return
        for loop, condition in guarded_loops(self.view.tree, self.view.kernel, self.view.dim3):
            inside = [
                a
                for a in self.view.accesses
                if a.reads and a.space in _SEEN and any(around.span == loop for around in a.loops)
            ]
            around = [x for a in inside for x in a.loops if x.span == loop]
            brief = any(x.trips is not None and x.trips < LONG for x in around)
            if not inside or (brief and max(_trips_from(a, loop) for a in inside) < LONG):
                continue
            if _VOTES.search(self.view.said(loop)):
                continue  # A warp that votes on what other blocks have written waits for them.
            said = self.view.said(condition).strip()
            trips = next((x.trips for x in around if x.trips is not None), None)
            known = trips is not None or any(_is_whole(x) for x in around)
            in_global = any(a.space == "global" for a in inside)
            long = known and in_global and not self._adds_up(trips, loop)
            most = float(min(threads, trips or self.gpu.limits.warp_size))
            yield self.finding(
                self.view.line_span(loop.line),
                severity="warning" if long else "information",
                confidence="medium" if long else "low",
                missing=() if trips is not None else ("the trip counts of the loops",),
                message=(
                    f"Only threads with {said} run this loop over {inside[0].name}: the others of the block's "
                    f"{threads} are idle."
                ),
                guidance=_GUIDANCE,
                evidence=(
                    self.view.observe("condition around the loop", said, tier="source"),
                    self.view.observe("threads per block", float(threads), tier="source"),
                ),
                gain=Gain.of(min(most, 4.0), most) if self.sass and long else None,
                index_query="block reduce warp shuffle",
            )
            return

    def _over_block(self) -> Iterator[Finding]:
        """A loop as long as a block, or as what the launch passes, where no launch tells the block's size."""
        for loop, condition in guarded_loops(self.view.tree, self.view.kernel, self.view.dim3):
            inside = [
                a
                for a in self.view.accesses
                if a.reads and a.space in _SEEN and any(_is_of_launch(x) for x in a.loops if x.span == loop)
            ]
            if not inside or _VOTES.search(self.view.said(loop)):
                continue
            said = " ".join(self.view.said(condition).split())
            of_block = any(_is_of_block(x) for a in inside for x in a.loops if x.span == loop)
            every = ", an iteration for each of the block's" if of_block else ""
            yield self.finding(
                self.view.line_span(loop.line),
                severity="information",
                confidence="low",
                message=(
                    f"Only threads with {said} run this loop over {inside[0].name}{every}: the others are idle."
                ),
                guidance=_GUIDANCE,
                evidence=(self.view.observe("condition around the loop", said, tier="source"),),
                index_query="block reduce warp shuffle",
            )
            return

    def _adds_up(self, trips: int | None, loop: Span) -> bool:
        """Whether the loop takes one part of each thread of the block, after a loop of theirs of unknown length: an
        iteration a thread is little against what each of them may have done."""
        if trips is None or trips > (self.view.threads or 0):
            return False
        every = {x.span: x for a in self.view.accesses for x in a.loops}
        return any(x.trips is None and span != loop for span, x in every.items())


def _trips_from(access: ArrayAccess, outer: Span) -> int:
    """Times that an access runs in a loop and those within it, where the text tells all of them; else 0."""
    trips = [x.trips for x in access.loops if outer.contains(x.span)]
    return math.prod(n or 0 for n in trips)


def _is_of_block(loop: Loop) -> bool:
    """Whether it runs to the size of the block, or along one of its axes."""
    return loop.bound is not None and {s.kind for s in loop.bound.symbols} == {"block size"}


def _is_of_launch(loop: Loop) -> bool:
    """Whether it is as long as the block, or goes from a constant up to what the launch passes."""
    return _is_of_block(loop) or (loop.trips is None and _is_whole(loop))


def _is_whole(loop: Loop) -> bool:
    """Whether it runs from a constant up to what the launch passes: the head or tail of a row does not."""
    first, bound = loop.first, loop.bound
    if first is None or bound is None or first.value is None:
        return False
    kinds = {s.kind for s in bound.symbols}
    return bool(kinds) and kinds <= {"parameter", "block size", "grid size"}
