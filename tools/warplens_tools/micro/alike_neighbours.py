# SPDX-License-Identifier: Apache-2.0
"""alike-neighbours

**What.** A flat index is taken apart (`c = i % channels`), one thread for each value of the remainder, and all these
neighbouring threads load the same elements of other arrays and work the same things out of them.

**Why it costs.** The loads are broadcasts, so that no byte is moved twice, but each is an instruction of every thread,
with the index arithmetic and all that is computed from it: weights of an interpolation, bounds of a region. Where only
the last load or store hangs on the remainder, most of what the kernel issues is said over and over.

**Wrong**

```cuda
int c = i % channels, p = i / channels;
float x = place[2 * p], y = place[2 * p + 1];            // the same for all channels
out[i] = interpolate(in + c, x, y);                      // and so are the weights in here
```

**Right**

```cuda
int c = 4 * (i % (channels / 4)), p = i / (channels / 4);  // four channels a thread: one float4 a tap
```

**Evidence.** A remainder of an index that counts neighbouring threads, and the loads whose indices hang on the quotient
alone.

**Threshold.** Three such loads, or one in a loop, and something else that hangs on the remainder. It is information:
what is computed alike is not weighed.

**References.** CUDA C++ Best Practices Guide, "Instruction Optimization"; NVIDIA Technical Blog, "CUDA Pro Tip:
Increase Performance with Vectorized Memory Access".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.alike_neighbours import alike_neighbours
from warplens_tools.finding import Finding, count
from warplens_tools.micro.base import MicroTool

#: Loads outside of loops from which they are worth a word.
MANY = 3
_NAMED = 4


class AlikeNeighbours(MicroTool):
    """Neighbouring threads load and work out the same things."""

    code = "WL120"
    slug = "alike-neighbours"
    title = "Neighbouring threads load and work out the same things"
    avoid = "Do not give a thread elements that lie far apart: neighbouring lanes must stay side by side."
    rule_words = "L1|instruction|issue"
    tiers = ("source", "binary")
    relevant = ("compute", "latency", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the remainder."""
        found = alike_neighbours(self.view.tree, self.view.kernel, self.view.dim3)
        if found is None or (len(found.loads) < MANY and not found.looped):
            return
        first = found.loads[0]
        yield self.finding(
            found.span,
            severity="information",
            confidence="low",
            message=(
                f"{found.divisor} neighbouring threads, one for each {found.remainder}, repeat "
                f"{count(len(found.loads), 'load')} of {', '.join(found.names[:_NAMED])} (line {first.line} first)"
                f"{' in every iteration' if found.looped else ''} and what is worked out of them: only "
                f"{found.remainder} differs."
            ),
            guidance=(
                f"Give a thread several values of {found.remainder} (two or four side by side, with vector loads and "
                "stores), so that the rest is loaded and worked out once for them."
            ),
            evidence=(
                self.view.observe(
                    "loads alike in neighbouring threads", float(len(found.loads)), tier="source"
                ),
            ),
        )
