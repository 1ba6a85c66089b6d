# SPDX-License-Identifier: Apache-2.0
"""unguarded-sums

**What.** Threads of a warp add to one element of memory by plain loads and stores (`sum[row] += x`), no atomic.

**Why it costs.** All of them load the same value, and of their stores one stays: the sum is wrong, whatever it is timed
at. Made right by an atomic for each thread it is slow, as atomics that meet at one address are done one after another;
so the sum is to be made over the threads first.

**Wrong**

```cuda
int row = i / columns;
out[row] += weight[i] * in[i % columns];            // the threads of a row overwrite each other
```

**Right**

```cuda
float sum = 0.0f;                                   // a warp for each row
for (int c = lane; c < columns; c += 32) sum += weight[row * columns + c] * in[c];
for (int s = 16; s > 0; s >>= 1) sum += __shfl_down_sync(0xffffffff, sum, s);
if (lane == 0) out[row] = sum;
```

**Evidence.** An update of an element (`+=`, `++`) whose index holds no `threadIdx.x`, or a quotient of it alone, and
the conditions around it, which let more than one lane of a warp come.

**Threshold.** None. What only data lets through, and blocks of one thread along x, are left alone. It is information:
it is about what is right before what is fast.

**References.** CUDA C++ Programming Guide, "SIMT Architecture" (writes of a warp to one location), "Atomic Functions";
Harris, "Optimizing Parallel Reduction in CUDA".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.values.forms import Symbol
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool

_LANE = "threadIdx.x"
#: Taken for what the text does not tell: sizes large enough that a bound lets every lane through.
_VALUES = {"parameter": 1_000_003, "block": 1, "loop": 0, "grid size": 64}
_SPACES = frozenset({"global", "shared"})


class UnguardedSums(MicroTool):
    """Threads add to one element without an atomic."""

    code = "WL130"
    slug = "unguarded-sums"
    title = "Threads add to one element without an atomic"
    avoid = (
        "Do not keep the race because the results look right; do not put an atomic in each thread where a sum"
        " over threads serves."
    )
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first such update."""
        if _LANE not in self.view.body or (self.view.block is not None and self.view.block[0] == 1):
            return
        for access in self.view.accesses:
            who = self._who(access)
            if not who or not self._are_several(access):
                continue
            text = " ".join(self.view.said(access.span).split())
            yield self.finding(
                access.span,
                severity="information",
                confidence="medium",
                message=(
                    f"Race: {who} add to {text} by a plain load and store: of those that meet, all but one are lost."
                ),
                guidance=(
                    "Add up over the threads of one element first (in a register along a loop, by shuffles over warps, "
                    f"in shared memory over a block), and let one thread store to {access.name}."
                ),
                evidence=(self.view.observe("update without an atomic", text, tier="source"),),
            )
            return

    def _who(self, access: ArrayAccess) -> str:
        """Which threads meet at the element, in words; "" where none do, or that is not known."""
        index = access.index
        plain = access.reads and access.writes and not access.atomic
        if not plain or index is None or access.space not in _SPACES or access.one or access.by_data:
            return ""
        if any(s.kind == "loop" for s in index.symbols) and not self._begin_alike(access):
            return ""
        own = [s for symbols, _ in index.terms for s in symbols if s.mentions(_LANE)]
        if not own:
            return "the threads of a block along x"
        return "neighbouring threads" if all(map(_is_quotient, own)) else ""

    def _begin_alike(self, access: ArrayAccess) -> bool:
        """Whether every loop around it begins at one number for all lanes."""
        return all(x.first is not None and not x.first.mentions(_LANE) for x in access.loops)

    def _are_several(self, access: ArrayAccess) -> bool:
        """Whether two lanes of the first warp or more come to it, where the conditions around it can be worked out."""
        x, y, z = self.view.block or (256, 1, 1)
        given = {"blockDim.x": x, "blockDim.y": y, "blockDim.z": z, "threadIdx.y": 0, "threadIdx.z": 0}
        for met in access.come:
            given |= {s.name: _VALUES[s.kind] for s in met.symbols if s.kind in _VALUES}
        come = [
            lane
            for lane in range(min(x, self.gpu.limits.warp_size))
            if all(met.holds({**given, _LANE: lane}) for met in access.come)
        ]
        places = self._places(access, come, given)
        return len(come) > 1 and (None in places or len(set(places)) < len(come))

    def _places(self, access: ArrayAccess, lanes: list[int], given: dict[str, int]) -> list[int | None]:
        """The element that each lane comes to, where that can be worked out: who passes a test of its own quotient may
        be one thread for each."""
        index = access.index
        if index is None:
            return [None]
        shared = {
            s.name: _VALUES.get(s.kind, 0) for s in index.symbols if s.kind not in ("thread", "derived")
        }
        return [index.evaluate({**shared, **given, _LANE: lane}) for lane in lanes]


def _is_quotient(symbol: Symbol) -> bool:
    return symbol.operation == "/"
