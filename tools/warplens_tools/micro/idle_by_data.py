# SPDX-License-Identifier: Apache-2.0
"""idle-by-data

**What.** In a loop, most of the work stands behind a comparison of each lane's own data: a distance against a cut-off,
a weight against nothing, a hit against a miss.

**Why it costs.** The lanes of a warp pass the test in different iterations. The warp executes the work as often as any
of them does, with the others masked off: where one candidate in six passes, nearly every iteration of the warp does the
work, for five of its 32 lanes.

**Wrong**

```cuda
for (int j = first; j < last; ++j) {
    float d2 = distance2(p, q[j]);
    if (d2 < cutoff2) force += interact(p, q[j], d2);     // a long body for the few lanes that are near
}
```

**Right**

```cuda
int near[N], found = 0;                                   // or a list in shared memory, filled by ballots
for (int j = first; j < last; ++j)
    if (distance2(p, q[j]) < cutoff2) near[found++] = j;  // a short body
for (int k = 0; k < found; ++k) force += interact(p, q[near[k]]);   // most lanes take part
```

**Evidence.** SASS: a branch in a loop on a comparison of floating-point values that differ between lanes, and what an
iteration may skip by it, in device functions that were inlined too.

**Threshold.** Half of the loop's instructions, and at least 24, in a loop that is a third of the kernel. It is
information: how often lanes pass only a run shows.

**References.** CUDA C++ Best Practices Guide, "Branching and Divergence"; Páll and Hess, "A flexible algorithm for
calculating pair interactions on SIMD architectures" (2013).
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.finding import Finding, count
from warplens_tools.micro.base import MicroTool
from warplens_tools.sass.by_data import Skip

#: Share of a loop that may be skipped, and share of the kernel that the loop is, from which it is told.
MOST, HEAVY = 0.5, 1 / 3
#: Instructions behind the test, from which masked lanes cost more than the test itself.
MANY = 24


class IdleByData(MicroTool):
    """Lanes whose data fail a test sit out most of a loop."""

    code = "WL220"
    slug = "idle-by-data"
    title = "Lanes whose data fail a test sit out most of a loop"
    rule_words = "diverge|predicat|threads.*per instruction"
    tiers = ("binary",)
    relevant = ("compute", "latency", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the test behind which most of the work stands."""
        every = self.sass.weigh(range(len(self.sass.weights))) if self.sass else 0.0
        found = [(self.sass.weigh(s.skipped), s) for s in self.sass.skips_by_data if self._is_told(s, every)]
        if not found:
            return
        weight, worst = max(found, key=lambda each: (each[0], -each[1].branch))
        share = weight / self.sass.weigh(self.sass.flow.instructions_of(worst.loop))
        place = self.hottest_place([worst.branch])
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="low",
            message=(
                f"Divergence by data{self.written_in([worst.branch])}: lanes whose values fail the test of this line "
                f"wait for the others in the loop, for {count(len(worst.skipped), 'instruction')} behind it, "
                f"{min(share, 1.0):.0%} of an iteration."
            ),
            guidance=(
                "Let each lane look for its next element that passes in a loop of its own, or compact those that pass "
                "into a list (ballots, shared memory), and do the work on full warps; or make fewer elements fail: "
                "finer cells, shorter lists, neighbours with alike data in one warp."
            ),
            evidence=(
                self.view.observe("instructions behind the test", float(len(worst.skipped)), "", float(MANY)),
                self.view.observe("share of the loop", round(min(share, 1.0), 2), "", MOST),
            ),
        )

    def _is_told(self, skip: Skip, every: float) -> bool:
        if len(skip.skipped) < MANY or skip.test not in self.sass.lane_dependent:
            return False
        loop = self.sass.weigh(self.sass.flow.instructions_of(skip.loop))
        return loop >= HEAVY * every and self.sass.weigh(skip.skipped) >= MOST * loop
