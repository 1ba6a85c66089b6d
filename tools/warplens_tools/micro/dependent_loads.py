# SPDX-License-Identifier: Apache-2.0
"""dependent-loads

**What.** A loop loads an address, or an index, and then what lies there: `data[link[i]]`, a list, a tree, a state
that is read where the last step left off.

**Why it costs.** The second load cannot start before the first has come back: each iteration waits for one round trip
to memory after the other, hundreds of cycles each, whatever is unrolled. Only other warps, or other chains of the same
thread, fill that time.

**Wrong**

```cuda
while (node >= 0) { sum += value[node]; node = next[node]; }         // a round trip for each node
```

**Right**

```cuda
int following = next[node];                                          // on its way while this one is worked on
```

**Evidence.** The innermost loops of the SASS: which loads' addresses come of loads of the same iteration or of the one
before; the cycles that a warp alone waits for memory in an iteration against those that the pipes need for all
resident warps.

**Threshold.** Three round trips in an iteration, or one that the next iteration's address waits for; half of the
iteration's time alone, which the resident warps' work does not fill. Information: how much of it the caches have, and
how many warps the card is given, is not known.

**References.** CUDA C++ Best Practices Guide, "Hiding latency"; V. Volkov, "Understanding Latency Hiding on GPUs"
(2016).
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.finding import Finding
from warplens_tools.machine.waiting import LoopPass
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.chains import ROUND_TRIPS, Chain, chain_of


class DependentLoads(MicroTool):
    """Loads that wait for the load before them."""

    code = "WL215"
    slug = "dependent-loads"
    title = "Each load of a loop waits for the one before"
    avoid = (
        "Do not unroll a chain in which each address comes of the load before it; do not read ahead of a test"
        " that ends the list."
    )
    rule_words = "long scoreboard|latency"
    tiers = ("binary",)
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the loop whose chain is longest."""
        if not self.sass:
            return
        found = [
            (p, chain)
            for p in self.view.waiting.innermost_passes
            if p.depth and (chain := chain_of(self.sass, p)) is not None and self._waits(p, chain)
        ]
        if not found:
            return
        worst, chain = max(found, key=lambda f: (f[0].depth, f[1].carried, f[1].trips))
        place = self.hottest_place(chain.indices)
        if place.line is None:
            return
        said = (
            "a step of this loop waits for what the step before loaded"
            if chain.carried
            else f"an iteration of this loop waits for {chain.trips} round trips to memory, one after the other"
        )
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="low",
            message=f"Dependent loads{self.written_in(chain.indices)}: {said}.",
            guidance=(
                "Have more chains on their way: several items a thread side by side, or more resident warps (smaller "
                "blocks of work, fewer registers); "
                + (
                    "keep in registers or shared memory what the next step reads again, and fetch it as soon as it is "
                    "known."
                    if chain.carried
                    else "load the next iteration's index before this one's data is used, or store the data where the "
                    "index is."
                )
            ),
            evidence=(
                self.view.observe("round trips of an iteration", float(chain.trips), "", float(ROUND_TRIPS)),
                self.view.observe(
                    "cycles of one warp per iteration", round(worst.alone, 1), "cycle",
                    round(self.view.waiting.resident_warps * worst.busy, 1), "busiest pipe, all resident warps",
                ),
            ),
        )  # fmt: skip

    def _waits(self, loop: LoopPass, chain: Chain) -> bool:
        """Whether a warp waits for memory longer than all resident ones have to do, if the L2 has not what is far."""
        far = chain.trips * (self.gpu.costs.memory_wait - self.gpu.costs.l2_wait)
        return self.view.waiting.waits(loop, far)
