# SPDX-License-Identifier: Apache-2.0
"""updates-by-data

**What.** Each thread adds atomically to global memory at a place that its data choose: a histogram, a sum over edges,
counts of keys; or it claims such a place, as of a hash table.

**Why it costs.** The L2 does atomics on one sector one after the other. Where the places are few, as a histogram's
bins, or the data are skewed, most threads of the grid wait at a few of them; where they are many, each takes a sector
of its own and the time of one.

**Wrong**

```cuda
atomicAdd(&bins[key[i]], 1);
```

**Right**

```cuda
atomicAdd(&own[key[i]], 1);                             // bins of the block in shared memory
__syncthreads();
for (int b = threadIdx.x; b < n; b += blockDim.x) atomicAdd(&bins[b], own[b]);
```

**Evidence.** Atomics on global memory whose index comes of what the thread loads.
Those whose place along threadIdx.x is looked up in a table by what another table gave are told at any cost.

**Threshold.** Half the time of all else in the bounded model, where SASS is at hand, with lanes at places of their own:
how often threads meet only a run shows, so it is information. Any, where the thread takes what the atomic brings, such
as a slot. Where global-atomic-contention, scattered-atomics or owned-sums have a word on the kernel, nothing is added.

**References.** N. Sakharnykh, "GPU Pro Tip: Fast Histograms Using Shared Atomics on Maxwell", NVIDIA Technical Blog;
CUDA C++ Programming Guide, "Atomic Functions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.cuda.facts.atomics import Atomic, atomics, led_lines
from warplens_tools.cuda.facts.group_numbers import is_of_group
from warplens_tools.cuda.syntax.lexical import split_arguments
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.global_atomic_contention import GlobalAtomicContention
from warplens_tools.micro.owned_sums import OwnedSums
from warplens_tools.micro.scattered_atomics import ScatteredAtomics
from warplens_tools.sass.pipes import GLOBAL_ATOMICS
from warplens_tools.sass.varying import numbered

_SUMS = frozenset({"atomicAdd", "atomicSub", "atomicInc", "atomicMin", "atomicMax", "atomicOr", "atomicAnd"})
#: An element that is named by its index, or by a pointer and a distance: `count + leaf`.
_INDEXED = re.compile(r"\[|\(\s*\w+\s*\+\s*\w")
#: What takes a place of a hash table, try by try.
_CLAIMS = frozenset({"atomicCAS"})
#: Time of the atomics over that of all else below which they are no word.
_LITTLE = 0.5
_OTHERS = (OwnedSums, GlobalAtomicContention, ScatteredAtomics)


class UpdatesByData(MicroTool):
    """Atomics on places that data choose."""

    code = "WL124"
    slug = "updates-by-data"
    title = "Each thread updates a place that its data choose"
    avoid = (
        "Do not keep copies in shared memory that do not fit it; do not drop the last atomic on the whole."
    )
    rule_words = "atomic"
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first such atomic."""
        every = atomics(self.view.tree, self.view.kernel, self.view.dim3)
        found = [a for a in every if self._is_chosen(a)]
        if any(tool.told(self.view) for tool in _OTHERS):
            return
        groups = [a for a in every if self._is_of_group(a)]
        if groups:
            yield self._told_of_groups(groups)
            return
        if not found:
            yield from () if every else self._in_calls()
            return
        if self._is_little() and not any(map(self._is_waited_for, found)):
            return
        # What a table or a list is claimed by weighs more than a counter beside it.
        first = next((a for a in found if a.function in _CLAIMS), found[0])
        text = " ".join(self.view.said(first.span).split())
        yield self.finding(
            first.span,
            severity="information",
            confidence="low",
            message=(f"Update by an atomic at a place that data choose: {text}. {self._cost(first)}"),
            guidance=(
                f"Where {first.name} is larger than the L2, order or partition the updates by their place first, so "
                "that the part at work stays in the L2; put what belongs together (a key and its value) into one word "
                "of 64 bits, so that one atomic stores both."
                if first.function in _CLAIMS
                else f"Where {first.name} fits, let each block add up in a copy of its own in shared memory and add "
                "that once; else sort or group the updates by place, or let each place gather what belongs to it. "
                "Neighbouring elements go in one vector atomic (float2, float4 on sm_90). Lanes of a warp that meet "
                "(__match_any_sync) do one atomic together."
            ),
            evidence=(
                self.view.observe("atomics at places that data choose", float(len(found)), tier="source"),
            ),
            index_query="histogram shared memory atomics",
        )

    def _is_of_group(self, atomic: Atomic) -> bool:
        """Whether lanes add to the place of the group of their group."""
        sums = atomic.plain in _SUMS and atomic.space == "global" and atomic.varies and atomic.index is None
        if not sums or atomic.leader or atomic.together:
            return False
        return is_of_group(self.view.body, split_arguments(self.view.said(atomic.span).partition("(")[2])[0])

    def _told_of_groups(self, found: list[Atomic]) -> Finding:
        first = found[0]
        text = " ".join(self.view.said(first.span).split())
        return self.finding(
            first.span,
            severity="information",
            confidence="low",
            message=(
                f"Contended update: {text} adds at a place that a table of a table gives each lane, a group of groups, "
                f"which neighbouring threads most often share: those of a warp that meet at one element of "
                f"{first.name} are served one after the other."
            ),
            guidance=(
                "Order the work by that place, so that a warp (or a block) has one, and add up over its lanes by "
                "shuffles before one of them does the atomic; else let the lanes that __match_any_sync finds at one "
                "place do one atomic together, or add up in shared memory first."
            ),
            evidence=(self.view.observe("atomics at places of groups", float(len(found)), tier="source"),),
            index_query="segmented reduction atomics",
        )

    def _in_calls(self) -> Iterator[Finding]:
        """Atomics of functions that the kernel calls, where SASS shows that each lane goes to a place of its own, by
        what it loaded or worked out beyond adding to its number."""
        code, found = self.sass.instructions, self.sass.where(lambda x: x.opcode in GLOBAL_ATOMICS)
        found = [i for i in found if i not in self.sass.flow.rare and i in self.sass.lane_dependent]
        if not found or self._is_little():
            return
        led = led_lines(self.view.tree, self.view.kernel, self.view.dim3)
        found = [i for i in found if self.sass.written[i] not in led]
        beside, told = numbered(code), {p.index for p in self.sass.patterns if p.sectors is not None}
        found = [i for i in found if i not in beside and i not in told]
        if not found:
            return
        place = self.hottest_place(found)
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="low",
            message=(
                f"Update by an atomic{self.written_in(found)} at a place that each lane's data choose: a request takes "
                "a sector of the L2 for each lane, and threads that meet at an element wait for each other there."
            ),
            guidance=(
                "Order or partition the updates by their place, so that the part at work stays in the L2 or in shared "
                "memory; where the places are few, let each block add up in a copy of its own and add that once."
            ),
            evidence=(self.view.observe("atomics at places that data choose", float(len(found))),),
            index_query="histogram shared memory atomics",
        )

    def _cost(self, first: Atomic) -> str:
        if first.function in _CLAIMS:
            return (
                f"Each takes a sector of {first.name} of its own for one element, and a thread's next try waits for "
                "its last."
            )
        return f"Threads that meet at an element of {first.name} wait for each other in the L2."

    def _is_waited_for(self, atomic: Atomic) -> bool:
        """Whether the thread takes what the atomic brings, such as a slot: it waits for all that came before."""
        before = self.view.text.line_text(atomic.span.line)[: atomic.span.column - 1]
        return before.rstrip().endswith("=") and atomic.function not in _CLAIMS

    def _is_little(self) -> bool:
        """Whether the L2 is done with the atomics, each lane at a place of its own, long before all else is."""
        found = self.sass.where(lambda x: x.opcode in GLOBAL_ATOMICS)
        return bool(self.sass) and ScatteredAtomics(self.view).time_ratio(found) < _LITTLE

    def _is_chosen(self, atomic: Atomic) -> bool:
        name = atomic.plain
        by_data = (
            atomic.index is None
            and atomic.varies
            and _INDEXED.search(self.view.said(atomic.span)) is not None
        )
        return (
            (name in _SUMS or name in _CLAIMS)
            and atomic.space == "global"
            and by_data
            and not (atomic.leader or atomic.together)
        )
