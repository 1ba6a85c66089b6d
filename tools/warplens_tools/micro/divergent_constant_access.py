# SPDX-License-Identifier: Apache-2.0
"""divergent-constant-access

**What.** A `__constant__` table is indexed by something that differs from lane to lane.

**Why it costs.** The constant cache serves one address to all lanes at once. Lanes that read different
words take a transaction each, up to 32 for one load; shared memory serves 32 words in one wavefront if they lie in
different banks, and the L1 a cache line.

**Wrong**

```cuda
__constant__ float gamma_table[256];
...
out[i] = gamma_table[in[i]];                   // 32 lanes, up to 32 different entries
```

**Right**

```cuda
__shared__ float table[256];
table[threadIdx.x] = gamma_values[threadIdx.x];    // a __device__ array, copied once a block
__syncthreads();
out[i] = table[in[i]];
```

**Evidence.** The table's index as a function of `threadIdx`, or data flow from `threadIdx` into it (an element
that each thread loaded); where SASS is at hand, an `LDC` on the line. Counters tell for how long the constant
cache was busy: they confirm the finding, bound its gain, or withdraw it.

**Threshold.** Two words a request; with SASS, an expected gain of 1.1. Where data decides, the words
expected of evenly spread indices are taken and the confidence is medium.

**References.** CUDA C++ Programming Guide, "Constant Memory"; CUDA C++ Best Practices Guide, "Constant Memory".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.collect import metrics as names
from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding, Gain, RelatedSpan
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import ARITHMETIC, CONSTANTS, DRAM, ISSUE, L1, L2, judge_by_room
from warplens_tools.roofline.measured import NEAR_ROOF

#: Words per request from which a warp is serialized.
DIVERGENT = 2.0
#: Passes that shared memory takes for as many even draws: the mean load of the fullest of 32 banks is 3.5.
_SHARED_PASSES = 3.5


class DivergentConstantAccess(MicroTool):
    """A __constant__ table is indexed differently by each lane."""

    code = "WL112"
    slug = "divergent-constant-access"
    title = "Divergent index into a __constant__ table"
    avoid = (
        "Do not leave the table in __constant__ memory and hope for the cache: it serves one address a "
        "request."
    )
    rule_words = "constant|IMC"
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")
    judges = (judge_by_room(own=CONSTANTS, kept=(*DRAM, *L1, *L2, *ARITHMETIC, *ISSUE)),)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the read with the most words in the deepest loop."""
        found = [c for c in self.view.contention.constants.divergent if c.words >= DIVERGENT]
        confirmed = bool(self.sass)
        if confirmed:
            found = [c for c in found if self.view.contention.constants.clocks_of([c])]
        if not found:
            yield from self._hidden()
            return
        worst = found[0]
        gain = self.view.contention.gain("constants", min(1.0, _SHARED_PASSES / worst.words))
        if gain is not None and gain.estimate < self.worth:
            return
        text, name = self.view.said(worst.access.span), worst.access.name
        about = "" if worst.exact else "about "
        declared = worst.access.declared
        yield self.finding(
            worst.access.span,
            severity="warning" if confirmed else "information",
            confidence="high" if worst.exact and confirmed else "medium",
            message=(
                f"Divergent index into __constant__ {name} at {text}: {about}{round(worst.words)} addresses per "
                "warp, one "
                "address per transaction."
            ),
            guidance=(
                f"Make {name} a __device__ array (or a kernel argument) and copy it to shared memory at the "
                "start of the "
                "block, or read it through the L1 as const __restrict__."
            ),
            evidence=self._observations(worst.words, exact=worst.exact),
            gain=gain,
            related=(RelatedSpan(declared.span, f"{name} is declared here"),) if declared is not None else (),
        )

    def _hidden(self) -> Iterator[Finding]:
        """Those that only SASS shows."""
        if not self.sass:
            return
        loads = self.view.contention.constants.hidden
        gain = (
            self.view.contention.gain("constants", _SHARED_PASSES / self.gpu.limits.warp_size)
            if loads
            else None
        )
        if gain is None or gain.estimate < self.worth:
            return
        line = self.sass.hottest_line(loads)
        # Where the block is not known, a warp may share what its threads' rows index.
        told = self.view.block is not None
        yield self.finding(
            line,
            severity="warning" if told else "information",
            confidence="medium" if told else "low",
            message=(
                f"Divergent index into a __constant__ table in {len(loads)} loads of this line: one address per "
                "transaction."
            ),
            guidance=(
                "Make the table a __device__ array (or a kernel argument) and copy it to shared memory at the start of "
                "the block, or read it through the L1 as const __restrict__."
            ),
            evidence=(self.view.observe("constant loads indexed by lane", float(len(loads)), "", 0.0),),
            gain=gain,
        )

    def _observations(self, words: float, *, exact: bool) -> tuple[Observation, ...]:
        why = "the constant cache serves one address per transaction"
        metric = "words per request" if exact else "words per request, if the indices are spread evenly"
        seen = [self.view.observe(metric, round(words, 1), "", 1.0, why, tier="source")]
        if self.sass:
            count = len(self.sass.where(lambda x: x.opcode == "LDC"))
            seen.append(self.view.observe("indexed constant loads (LDC)", float(count)))
        return tuple(seen)

    def check_counters(self) -> Iterator[Finding]:
        """A constant cache that was seen busy most of the time: a warp's words are serialized."""
        found = self.view.counted
        busy = None if found is None else names.value(found.counters, names.CONSTANT_CACHE)
        if found is None or busy is None or busy < 100.0 * NEAR_ROOF:
            return
        line = found.line_of(found.where(lambda x: x.opcode == "LDC"), names.PER_INSTRUCTION[1])
        yield self.finding(
            line,
            confidence="high",
            message=("Divergent index into a __constant__ table: one address per transaction."),
            guidance=(
                "Make the table a __device__ array (or a kernel argument) and copy it to shared memory at the start "
                "of the block, or read it through the L1 as const __restrict__."
            ),
            evidence=(found.counters.seen("constant cache busy", busy / 100.0, NEAR_ROOF),),
            gain=Gain.of(self.gpu.limits.warp_size / _SHARED_PASSES, self.gpu.limits.warp_size),
        )
