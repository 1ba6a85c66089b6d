# SPDX-License-Identifier: Apache-2.0
"""barriers-per-step

**What.** Each iteration of a loop waits for the whole block three times or more, or for the whole grid; or it waits
once and hands its results on to the next through global memory.

**Why it costs.** At every barrier all warps of the block wait for the slowest, and nothing of the next section can hide
what is left of this one. A barrier of the grid takes a microsecond or more, and results that go through global memory
add the latency of the L2 to every step. Sections that one thread works in alone make all others wait for it twice.

**Wrong**

```cuda
for (int band = 0; band < bands; ++band) {
    if (threadIdx.x == 0) place[band] = next(place[band - 1]);
    __syncthreads();
    score[threadIdx.x] = cell(before, place[band]);
    __syncthreads();
    before[threadIdx.x] = score[threadIdx.x];
    __syncthreads();
}
```

**Right**

```cuda
for (int band = 0; band < bands; ++band) {
    int at = next(at_before);                          // every thread works it out by itself
    score[band % 3][threadIdx.x] = cell(score[(band + 2) % 3], at);
    __syncthreads();                                   // buffers in turn: one barrier is enough
}
```

**Evidence.** The barriers of the block in a loop of the kernel, those of loops within it left out, and branches between
them that single threads take; calls of `sync` of a grid's group; arrays of global memory that a loop with a barrier
stores to, and loads from at another place; a loop with a barrier whose work a
thread passes by once a flag of its own is set for good, and which nothing leaves; else SASS: innermost loops with a
barrier.

**Threshold.** Three barriers an iteration, or one of the grid, or one beside such an array where the loop stores
nothing to shared memory, or one for each 16 instructions of a loop that moves data, in kernels of which barrier-tree,
barrier-heavy and excess-barriers have nothing to say. It is information: how long the sections are is not weighed.

**References.** CUDA C++ Programming Guide, "Synchronization Functions".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.barrier_trees import barrier_trees
from warplens_tools.cuda.facts.done_flags import done_flags
from warplens_tools.cuda.facts.looped_barriers import LoopedBarriers, looped_barriers
from warplens_tools.finding import Finding, RelatedSpan, count
from warplens_tools.micro.barrier_heavy import BarrierHeavy
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.excess_barriers import ExcessBarriers
from warplens_tools.sass.pipes import space_of
from warplens_tools.text import Span

#: Barriers of an iteration from which they are told.
MANY = 3
#: Instructions for each barrier up to which an iteration is short.
SHORT = 16
_SHOWN = 4


class BarriersPerStep(MicroTool):
    """Several barriers in each iteration of a loop."""

    code = "WL219"
    slug = "barriers-per-step"
    title = "Each iteration of a loop waits for the block several times"
    avoid = (
        "Do not drop a barrier between a write and another warp's read of the same element; a buffer in turn "
        "replaces it only where it is a different one."
    )
    rule_words = "barrier"
    tiers = ("source", "binary")
    relevant = ("latency", "compute", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel: of barriers of the grid, of the loop with most of the block's, or of results that
        steps hand on through global memory."""
        loops = looped_barriers(self.view.tree, self.view.kernel, self.view.dim3)
        wide = max(loops, key=lambda x: len(x.of_grid), default=None)
        if wide is not None and wide.of_grid:
            yield self._of_grid(wide)
            return
        found = [x for x in loops if len(x.barriers) >= MANY]
        handed = [x for x in loops if x.through]
        if barrier_trees(self.view.tree, self.view.kernel):
            return
        others = (BarrierHeavy, ExcessBarriers)
        if any(tool.told(self.view) for tool in others):
            return
        if not (found or handed):
            yield from list(self._of_done()) or self._of_short_steps()
            return
        worst = max(found, key=lambda x: len(x.barriers), default=None)
        if worst is None:
            yield self._handed_on(handed[0])
            return
        inner = [x for x in loops if x.barriers and x is not worst and _is_within(x.span, worst.span)]
        deepest = [x for x in inner if not any(y is not x and _is_within(y.span, x.span) for y in inner)]
        yield self._of_inner(deepest[0], worst) if deepest else self._of_block(worst)

    def _of_done(self) -> Iterator[Finding]:
        """A loop that goes on with its barrier when every thread of the block is done."""
        for done in done_flags(self.view.tree, self.view.kernel)[:1]:
            yield self.finding(
                self.view.line_span(done.loop.line),
                severity="information",
                confidence="low",
                message=(
                    f"A loop that goes on for nothing: a thread whose {done.flag} is set passes its work by, but goes "
                    "through every further iteration and its barrier, also when all of the block are done."
                ),
                guidance=(
                    f"Let the block leave together: __syncthreads_and({done.flag}) in place of the barrier, and break "
                    "where it holds."
                ),
                evidence=(
                    self.view.observe("flag that no loop asks the block for", done.flag, tier="source"),
                ),
                related=(RelatedSpan(done.test, "what a thread that is done passes by"),),
            )

    def _of_short_steps(self) -> Iterator[Finding]:
        """A loop of few instructions from barrier to barrier, of the kernel or of a function that it calls."""
        flow, code = self.sass.flow, self.sass.instructions
        for loop in flow.innermost_loops:
            own = flow.instructions_of(loop)
            barriers = [i for i in own if code[i].opcode == "BAR"]
            # A tree that halves its distance moves nothing, and ends soon.
            moves = any(space_of(code[i]) == "global" for i in own)
            if not barriers or not moves or len(own) > SHORT * len(barriers):
                continue
            place = self.hottest_place(barriers)
            yield self.finding(
                place.line,
                related=place.related,
                severity="information",
                confidence="low",
                message=(
                    f"A barrier of the block for every {len(own) / len(barriers):.0f} instructions of this loop: a "
                    "step takes as long as the block needs to meet, whatever it works out."
                ),
                guidance=(
                    "Let an iteration do several steps or elements between two barriers, or let the lanes of one warp "
                    "hand results on by shuffles, which need no barrier; where the steps hang on one another, many "
                    "such problems at once fill the card."
                ),
                evidence=(
                    self.view.observe(
                        "instructions for each barrier", len(own) / len(barriers), "", float(SHORT)
                    ),
                    self.view.observe("barriers in an iteration", float(len(barriers))),
                ),
            )
            return

    def _of_grid(self, found: LoopedBarriers) -> Finding:
        many = count(len(found.of_grid), "barrier")
        return self._found(
            found,
            found.of_grid,
            f"{many} of the whole grid in each iteration of this loop: every block of the card waits for the slowest, "
            "a microsecond or more each time.",
            "Let a block take several steps between two barriers of the grid (tiles with a halo, or a wavefront of "
            "tiles), or let blocks wait for their neighbours alone by flags in global memory; one launch a step costs "
            "about as much.",
        )

    def _of_block(self, worst: LoopedBarriers) -> Finding:
        alone = (
            f", with sections of single threads between them (line {worst.alone[0].line})"
            if worst.alone
            else ""
        )
        return self._found(
            worst,
            worst.barriers,
            f"{len(worst.barriers)} barriers of the block in each iteration of this loop{alone}: all warps wait "
            "for the slowest at each.",
            "Use buffers in turn (two or three, by the iteration's number) so that one barrier orders both sides; "
            "let every thread work out what a single one does; give sections that one warp can do to it alone, "
            "with __syncwarp.",
        )

    def _of_inner(self, inner: LoopedBarriers, worst: LoopedBarriers) -> Finding:
        """Of the loop within, whose barriers run most often."""
        return self._found(
            inner,
            (*inner.barriers, *worst.barriers),
            f"{count(len(inner.barriers), 'barrier')} of the block in each iteration of this loop, within the loop of "
            f"line {worst.span.line}, which has {len(worst.barriers)} more: all warps wait for the slowest at each.",
            "Let an iteration do more between two barriers (several elements of the loop at a time, one for each warp, "
            "with __syncwarp or atomics within it), use buffers in turn, and keep what one thread does for the others "
            "out of the loop.",
        )

    def _handed_on(self, found: LoopedBarriers) -> Finding:
        return self._found(
            found,
            found.barriers,
            f"Serial steps through global memory: each iteration of this loop stores to {found.through}, waits for the "
            "block, and the next one loads from it, a round trip to the L2 and a barrier for each step.",
            f"Keep what the next step needs of {found.through} in registers (shuffles) or in shared memory, in two "
            "buffers by turns, and load ahead what no step changes; where one block walks a problem alone, only many "
            "problems at once fill the card.",
        )

    def _found(
        self, found: LoopedBarriers, barriers: tuple[Span, ...], message: str, guidance: str
    ) -> Finding:
        return self.finding(
            self.view.line_span(found.span.line),
            severity="information",
            confidence="low",
            message=message,
            guidance=guidance,
            evidence=(self.view.observe("barriers in an iteration", float(len(barriers)), "", float(MANY),
                                        tier="source"),),
            related=tuple(RelatedSpan(b, "a barrier") for b in barriers[:_SHOWN]),
        )  # fmt: skip


def _is_within(inner: Span, outer: Span) -> bool:
    return outer.contains_line(inner.line) and outer.contains_line(inner.end_line)
