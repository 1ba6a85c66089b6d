# SPDX-License-Identifier: Apache-2.0
"""generator-states

**What.** Each thread loads the state of a generator from global memory, draws a few numbers and stores it back.

**Why it costs.** A state of cuRAND's default generator has 48 bytes, one of Philox 64, and they lie one behind the
other: neighbouring lanes are as far apart, and for a number of 4 bytes some 100 are moved. Drawn through the pointer
(`curand_uniform(&states[i])`), each number loads and stores it again.

**Wrong**

```cuda
x[i] += curand_normal(&states[i]);
y[i] += curand_normal(&states[i]);
```

**Right**

```cuda
curandStatePhilox4_32_10_t own;
curand_init(seed, i, 4 * step, &own);                  // counts: beginning anywhere takes a few instructions
float4 drawn = curand_normal4(&own);                   // and nothing is kept in memory
```

**Evidence.** Calls that are handed an element of an array of states, or a local copy of one that is stored back.

**Threshold.** None of the draws is in a loop: what a loop draws from a copy pays for the state, and what it draws
through the pointer is told as elements-read-again. It is information.

**References.** cuRAND Library Programming Guide, "Device API Overview" (performance notes).
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.generator_states import states_moved
from warplens_tools.finding import Finding, count
from warplens_tools.micro.base import MicroTool


class GeneratorStates(MicroTool):
    """A generator's state is loaded and stored for a few numbers."""

    code = "WL132"
    slug = "generator-states"
    title = "Generators' states are loaded and stored for a few numbers each"
    avoid = "Do not draw from a copy that is never stored back: the next launch would draw the same numbers."
    rule_words = "uncoalesced|access pattern.*global|DRAM"
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on its first draw."""
        found = states_moved(self.view.tree, self.view.kernel)
        if found is None or (self.view.launches.is_of_one_thread and not self._is_repeated()):
            return  # nobody waits for what one thread draws once
        size = f"{found.bytes} bytes" if found.bytes is not None else "some dozen bytes"
        each = found.direct and found.draws > 1
        yield self.finding(
            found.span,
            severity="information",
            confidence="medium",
            message=(
                f"Generator states in global memory: each thread loads and stores its element of {found.name}, {size} "
                f"from its neighbour's, {'again for each of' if each else 'for'} {count(found.draws, 'draw')}."
            ),
            guidance=(
                ("Draw from a local copy of the state, stored back once. " if each else "")
                + "Where a launch draws few numbers of each thread, keep no states: set up a generator that counts in "
                "the kernel (curandStatePhilox4_32_10_t, with the thread's number as its subsequence and the step as "
                "its offset), which begins anywhere in a few instructions."
            ),
            evidence=(self.view.observe("draws of a thread", float(found.draws), tier="source"),),
        )

    def _is_repeated(self) -> bool:
        """Whether a loop of the host launches the kernel again and again."""
        return any(s.loop_depth for s in self.view.launches.sites)
