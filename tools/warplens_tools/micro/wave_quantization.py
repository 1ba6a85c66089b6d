# SPDX-License-Identifier: Apache-2.0
"""wave-quantization

**What.** The blocks do not divide evenly over the SMs: the last wave is nearly empty, and the kernel lasts as
long as if it were full.

**Why it costs.** With 1.1 waves of equal blocks the kernel takes the time of two, and most SMs idle in
the second.

**Wrong**

```cuda
filter<<<150, 512>>>(out, in, n);        // 132 SMs: 18 of them work twice as long
```

**Right**

```cuda
filter<<<264, 256>>>(out, in, n);        // two smaller blocks for every SM
```

**Evidence.** Blocks of the launch, measured or constant; the blocks that fit on the GPU at once, from ptxas'
registers and shared memory. A kernel that keeps an SM's pipes busy is judged by blocks per SM, as its resident
blocks share the pipes. Counters tell for how long the SMs had work: what they lacked on average is the gain,
and even SMs with full warp slots withdraw the finding.

**Threshold.** A fifth of the time or more, of a kernel that is not bound by device memory or the L2 (a last wave with
fewer SMs still gets the whole of them; each SM's L1 and shared memory idle with it). Below one wave there is no tail.

**References.** CUDA C++ Best Practices Guide, "Thread and Block Heuristics"; NVIDIA, "Deep Learning Performance:
Matrix Multiplication Background", section "Wave Quantization".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding, Gain
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.serial import judge_waves

#: Units that a last wave with fewer SMs has for itself.
_SHARED_BY_SMS = frozenset({"l2", "global atomics"})
#: A loop in which the grid's blocks take turns: with few elements the last blocks have none.
_DEALT = re.compile(r"\+=[^;{}]*\bgridDim\b")


class WaveQuantization(MicroTool):
    """The tail wave of blocks is nearly empty."""

    code = "WL205"
    slug = "wave-quantization"
    title = "The tail wave of blocks is nearly empty"
    avoid = "Do not drop elements to fit a whole wave."
    rule_words = "wave|tail"
    of_launch = True
    tiers = ("binary",)
    relevant = ("compute", "latency", "memory")
    #: Time of the launch over its time without a tail from which it is reported.
    worth = 1.2
    judges = (judge_waves,)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on its largest launch."""
        shape = self.view.shape
        if shape is None or not self.view.runs_long:
            return
        found = self.view.occupancy
        # A tail leaves SMs idle: measured, such a kernel waits; by its code it still is what the full SMs are.
        bounds = {
            vote.bound for vote in (self.view.bottleneck, self.view.bottleneck.analytic) if vote is not None
        }
        busy = "compute" in bounds or ("memory" in bounds and self._keeps_own_units_busy())
        if found is None or not found.blocks or (bounds <= {"memory", "unknown"} and not busy):
            return
        sms = self.gpu.multiprocessors
        at_once = sms if busy else sms * found.blocks
        blocks = self.view.launching.busy_blocks or shape.blocks
        waves = blocks / at_once
        ratio = math.ceil(waves) / waves
        if waves <= 1.0 or ratio < self.worth:
            return
        span = shape.site.grid_span if shape.site is not None else self.view.kernel.name_span
        rest = blocks % at_once
        dealt = _DEALT.search(self.view.body) is not None and self.view.launching.most_trips is None
        yield self.finding(
            span,
            confidence="medium",
            missing=("how many elements the blocks deal out among them",) if dealt else (),
            message=(
                f"{self.view.kernel.name} runs {waves:.2f} waves of {at_once} concurrent blocks on "
                f"{self.gpu.name}: the tail "
                f"wave is {rest / at_once:.0%} full ({rest} blocks)."
            ),
            guidance=(
                f"Launch a multiple of {at_once} blocks and let each loop over its share (grid-stride), or cut the "
                "work into more, smaller blocks so that the tail weighs less."
            ),
            evidence=(
                *shape.observations(self.gpu)[:1],
                self.view.observe("resident blocks per SM", float(found.blocks)),
                Observation(
                    shape.tier, shape.origin, "waves", round(waves, 3), "", self.worth, "time over even time"
                ),
            ),
            gain=Gain.of(ratio, ratio),
        )

    def _keeps_own_units_busy(self) -> bool:
        """Whether units that each SM has for itself bound the kernel: not device memory, the L2 or its atomic units."""
        demand = self.view.demand
        own = max(
            (cycles for unit, cycles in demand.pipes.items() if unit not in _SHARED_BY_SMS), default=0.0
        )
        shared = [cycles for unit, cycles in demand.pipes.items() if unit in _SHARED_BY_SMS]
        return own > max(demand.dram_upper, *shared)
