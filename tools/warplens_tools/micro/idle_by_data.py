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

import re
from collections.abc import Iterator, Sequence

from warplens_tools.finding import Finding, count
from warplens_tools.micro.base import MicroTool
from warplens_tools.sass.by_data import Skip

#: Share of a loop that may be skipped, and share of the kernel that the loop is, from which it is told.
MOST, HEAVY = 0.5, 1 / 3
#: Instructions behind the test, from which masked lanes cost more than the test itself.
MANY = 24
#: What tests on a line of code.
#: A bound as small as rounding in it: a test for what hardly happens.
_TOLERANCE = re.compile(r"\d[eE]-(?:[6-9]|\d\d)")
_TESTS = re.compile(r"\b(?:if|for|while|switch)\b|\?|&&|\|\||[<>]=?|[!=]=")


#: A value that is asked for not being zero, on a line without blanks.
_NONZERO = re.compile(r"(?<![\w.\])])([A-Za-z_]\w*(?:\[[^\[\]]*\]|\.\w+|->\w+)*)!=0(?:\.0*)?[fF]?(?![\w.])")
#: Lines behind a test in which its division is looked for.
_NEAR = 12


class IdleByData(MicroTool):
    """Lanes whose data fail a test sit out most of a loop."""

    code = "WL220"
    slug = "idle-by-data"
    title = "Lanes whose data fail a test sit out most of a loop"
    avoid = (
        "Do not put a barrier or a shuffle where part of the lanes come; do not reorder what must stay in "
        "order."
    )
    rule_words = "diverge|predicat|threads.*per instruction"
    tiers = ("binary",)
    relevant = ("compute", "latency", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the test behind which most of the work stands."""
        found = [
            (self.sass.weigh(skipped), skips) for skips in self._tests() if (skipped := self._behind(skips))
        ]
        if not found:
            return
        weight, skips = max(found, key=lambda each: (each[0], -each[1][0].branch))
        share = min(weight / self.sass.weigh(self.sass.flow.instructions_of(skips[0].loop)), 1.0)
        tests = [s.branch for s in skips]
        if self._keeps_from_division(skips):
            return
        # A loop that the compiler unrolled holds its body, and the test, several times.
        behind = max(len(s.skipped) for s in skips)
        place = self.hottest_place(tests)
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="low",
            message=(
                f"Divergence by data{self.written_in(tests)}: lanes whose values fail the test of this line "
                f"wait for the others in the loop, for {count(behind, 'instruction')} behind it, "
                f"{share:.0%} of an iteration."
            ),
            guidance=(
                "Let each lane look for its next element that passes in a loop of its own, or compact those that pass "
                "into a list (ballots, shared memory), and do the work on full warps; or make fewer elements fail: "
                "finer cells, shorter lists, neighbours with alike data in one warp."
            ),
            evidence=(
                self.view.observe("instructions behind the test", float(behind), "", float(MANY)),
                self.view.observe("share of the loop", round(share, 2), "", MOST),
            ),
        )

    def _tests(self) -> list[list[Skip]]:
        """The branches on values that differ between lanes, by their loop and the line of their test."""
        groups: dict[tuple[int, int | None], list[Skip]] = {}
        for skip in self.sass.skips_by_data if self.sass else ():
            if skip.test in self.sass.lane_dependent and self._is_written(skip):
                groups.setdefault((skip.loop.header, self.sass.written[skip.test]), []).append(skip)
        return list(groups.values())

    def _is_written(self, skip: Skip) -> bool:
        """Whether the test is a programmer's: the math library's functions test their arguments too."""
        test, line = self.sass.instructions[skip.test], self.sass.written[skip.test]
        if self.sass.table.is_foreign(test):
            return not self.sass.table.is_toolkit(test)
        text = self.view.text.line_text(line) if line is not None else ""
        return _TESTS.search(text) is not None and _TOLERANCE.search(text) is None

    def _keeps_from_division(self, skips: Sequence[Skip]) -> bool:
        """Whether the test keeps from a division by nothing, of the value that is tested: hardly a lane fails it."""
        first = self.sass.written[skips[0].test]
        if first is None or self.sass.table.is_foreign(self.sass.instructions[skips[0].test]):
            return False
        last = max((n for s in skips for i in s.skipped if (n := self.sass.written[i])), default=first)
        code = "".join(
            "".join(
                map(self.view.text.line_text, range(first, min(max(first, last), first + _NEAR) + 1))
            ).split()
        )
        asked = "".join(self.view.text.line_text(first).split())
        return any(
            re.search(rf"/\(*{re.escape(value)}(?![\w\[.])", code) for value in _NONZERO.findall(asked)
        )

    def _behind(self, skips: Sequence[Skip]) -> frozenset[int]:
        """What stands behind some tests, where it is most of a loop that is a large part of the kernel; else none."""
        sass, skipped = self.sass, frozenset(i for s in skips for i in s.skipped)
        loop, every = (
            sass.weigh(sass.flow.instructions_of(skips[0].loop)),
            sass.weigh(range(len(sass.instructions))),
        )
        many = max(len(s.skipped) for s in skips) >= MANY
        return (
            skipped if many and loop >= HEAVY * every and sass.weigh(skipped) >= MOST * loop else frozenset()
        )
