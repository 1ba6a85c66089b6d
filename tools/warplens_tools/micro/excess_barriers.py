# SPDX-License-Identifier: Apache-2.0
"""excess-barriers

**What.** A `__syncthreads()` that orders nothing: no thread accesses, between it and the barrier before it,
anything that another thread writes; or it stands in a loop that only reads shared memory; or each thread or
warp shares memory with itself alone, where nothing or `__syncwarp()` does as much.

**Why it costs.** Every warp of the block waits for the slowest one, and the loads of the next iteration
cannot start before. In an inner loop that is one wait per multiply-add.

**Wrong**

```cuda
for (int k = 0; k < 32; ++k) {
    sum += a[threadIdx.y][k] * b[k][threadIdx.x];
    __syncthreads();                       // the loop reads only
}
```

**Right**

```cuda
for (int k = 0; k < 32; ++k) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
__syncthreads();                           // before the tiles are overwritten
```

**Evidence.** The accesses and calls of the statements around the barriers; `BAR` in the loops of the SASS.
Counters tell the share of stalls at barriers, and the busiest unit, which is as busy without them: they confirm
the finding, bound its gain, or withdraw it.

**Threshold.** None: it is proven from the text or not said. Kernels that pass shared arrays to functions are
left alone. The gain counts a wait of all warps for 14 cycles and 2 a warp at each barrier.

**References.** CUDA C++ Programming Guide, "Synchronization Functions"; CUDA C++ Best Practices Guide,
"Shared Memory in Matrix Multiplication".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warplens_tools.cuda.facts.barriers import ExcessBarrier, excess_barriers
from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding, Gain, RelatedSpan
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import EVERY, judge_by_room

#: Kinds that say with whom memory is shared, not where the barrier stands.
_PRIVATE = ("thread", "warp")


class ExcessBarriers(MicroTool):
    """A barrier orders nothing."""

    code = "WL209"
    slug = "excess-barriers"
    title = "A barrier orders nothing"
    avoid = "Do not remove the barrier that keeps the next iteration's writes from this one's reads."
    rule_words = "barrier"
    tiers = ("source", "binary")
    relevant = ("latency", "compute", "memory")
    judges = (judge_by_room(stalls=("barrier",), kept=EVERY),)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the barrier in the deepest loop."""
        block = self.view.dim3
        found = excess_barriers(self.view.tree, self.view.kernel, block)
        if not found:
            return
        worst = max(found, key=lambda b: (self.sass.weigh(self._bars([b])), b.kind == "reads"))
        yield self.finding(
            worst.span,
            severity="information" if worst.kind in _PRIVATE and worst.other == worst.span else "warning",
            confidence="high",
            message=_message(worst),
            guidance=_guidance(worst),
            evidence=self._observations(found),
            gain=self._gain(worst),
            related=(
                RelatedSpan(worst.other, "the barrier before it" if worst.kind == "adjacent" else "the loop"),
            )
            if worst.other != worst.span
            else (),
        )

    def _bars(self, found: Sequence[ExcessBarrier]) -> list[int]:
        """Indices of the barriers' instructions."""
        lines = {b.span.line for b in found}
        return [i for i in self.sass.where(lambda x: x.opcode == "BAR") if self.sass.lines[i] in lines]

    def _observations(self, found: Sequence[ExcessBarrier]) -> tuple[Observation, ...]:
        seen = [self.view.observe("barriers that order nothing", float(len(found)), "", 0.0, tier="source")]
        if self.sass:
            bars = float(len(self._bars(found)))
            seen.append(self.view.observe("BAR instructions on these lines", bars))
        return tuple(seen)

    def _gain(self, worst: ExcessBarrier) -> Gain | None:
        """Each barrier adds its wait, hidden in part by the SM's other blocks, to the work of the code around it.

        A loop that the compiler unrolled weighs no more than straight code, so only its own lines are compared.
        """
        if not self.sass:
            return None
        weight = list(self.sass.weights)
        if worst.kind == "reads":
            near = range(worst.other.line, worst.other.end_line + 1)
            weight = self.sass.without([i for i, line in enumerate(self.sass.lines) if line not in near])
        threads = self.view.threads or 256
        warps = -(-threads // self.gpu.limits.warp_size)
        busy = max(self.sass.cycles_at(weight).values()) * warps
        waits = sum(weight[i] for i in self._bars([worst])) * self.gpu.costs.barrier_clocks(warps)
        waits /= max(1.0, self.gpu.limits.max_threads / threads / 2)
        ratio = 1.0 + waits / busy if busy else 1.0
        return Gain.of(ratio, 1.0 + 2.0 * (ratio - 1.0))


def _message(worst: ExcessBarrier) -> str:
    names = " and ".join(worst.names)
    if worst.kind == "adjacent":
        return (
            "This barrier orders nothing: since the one before it no thread accesses what another one writes."
        )
    if worst.kind == "thread":
        return f"This barrier orders nothing: each thread keeps to its own elements of {names}."
    if worst.kind == "warp":
        return f"This barrier makes warps wait that share nothing: each keeps to its own part of {names}."
    return f"This barrier orders nothing: its loop only reads {names or 'what the threads share'}."


def _guidance(worst: ExcessBarrier) -> str:
    if worst.kind in ("adjacent", "thread"):
        return "Remove it."
    if worst.kind == "warp":
        return (
            "Make it __syncwarp(), and put another before the next write: the lanes of a warp see each other's shared "
            "memory then, and no warp waits for the slowest of its block."
        )
    return (
        "Take it out of the loop: one barrier before the first read and one before the next write are enough."
    )
