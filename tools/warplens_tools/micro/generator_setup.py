# SPDX-License-Identifier: Apache-2.0
"""generator-setup

**What.** Each thread sets up a random generator of cuRAND's default kind to a subsequence of its own:
`curand_init(seed, i, 0, &state)`.

**Why it costs.** The subsequences of XORWOW, the default, lie 2^67 numbers apart. To begin one the generator
skips ahead by products with matrices, one for each few bits of the subsequence's number: thousands of instructions and
loads of tables, more than the numbers that many programs draw afterwards. A kernel that also draws pays again in every
launch.

**Wrong**

```cuda
curandState state;
curand_init(seed, i, 0, &state);
```

**Right**

```cuda
curandStatePhilox4_32_10_t state;                      // its subsequences are counters
curand_init(seed, i, 0, &state);
// or curand_init(seed + i, 0, 0, &state), where a seed for each thread is random enough;
// or states that are set up once, kept, and stored back after each launch
```

**Evidence.** Calls of `curand_init` in the kernel whose second argument differs between threads; the type of the state
is not that of a generator that counts.

**Threshold.** None: how many numbers are drawn afterwards is not weighed, so it is information.

**References.** cuRAND Library Programming Guide, "Device API Overview" (performance notes).
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.generator_setups import generator_setups
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool


class GeneratorSetup(MicroTool):
    """A generator is skipped ahead to each thread's subsequence."""

    code = "WL313"
    slug = "generator-setup"
    title = "Random generators skip ahead to a subsequence of each thread"
    avoid = "Do not give all threads one seed and one subsequence: they would draw the same numbers."
    tiers = ("source", "binary")
    relevant = ("compute", "latency", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first such call."""
        found = generator_setups(self.view.tree, self.view.kernel)
        if not found:
            return
        first = found[0]
        again = ", and again in every launch of the kernel that draws from it" if first.draws else ""
        yield self.finding(
            first.span,
            severity="information",
            confidence="medium",
            message=(
                f"Generator set up by skipping ahead: curand_init brings each thread to subsequence "
                f"{first.subsequence} by products of matrices, thousands of instructions{again}."
            ),
            guidance=(
                "Use a generator that counts (curandStatePhilox4_32_10_t), or give each thread a seed of its own with "
                "subsequence 0 where that is random enough"
                + (
                    "; or set the states up once in a kernel of its own and keep them from launch to launch."
                    if first.draws
                    else ", and set up in the kernel that draws rather than through states in global memory where "
                    "they are used once."
                )
            ),
            evidence=(self.view.observe("subsequence", first.subsequence, tier="source"),),
        )
