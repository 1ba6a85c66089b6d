# SPDX-License-Identifier: Apache-2.0
"""per-thread-chunks

**What.** A blocked distribution: each thread reads a contiguous chunk of an array, as a CPU thread would.

**Why it costs.** In every iteration the lanes of a warp are a whole chunk apart: 32 cache lines are
looked up for 32 elements. What is left of each line must wait in the L1 for the next iterations, and with
a line per resident thread the L1 is full before they come.

**Wrong**

```cuda
int first = (blockIdx.x * blockDim.x + threadIdx.x) * per_thread;
for (int i = first; i < first + per_thread; ++i) sum += x[i];
```

**Right**

```cuda
for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
```

**Evidence.** The index for every lane of a warp, and its growth from one iteration to the next: inside a
sector along the loop, whole chunks apart along the lanes. Where a thread loads the start of its chunk (the rows
of a sparse matrix), the pattern alone, and no figure: the distance of the lanes is in the data; it is information
unless half of what the loop reads and writes is read so, and where the start is one of a chain of loads or a multiple
of what was loaded. Where only SASS
shows a walk, it is a blocked distribution if the text divides the work by the number of threads, and information
otherwise: how far apart the lanes start is then not known.

**Threshold.** Twice the sectors that the wanted bytes fill; with SASS, an expected gain of 1.1. Counters that
show no more sectors on the line than needed withdraw it.

**References.** CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"; M. Harris, "CUDA Pro Tip:
Write Flexible Kernels with Grid-Stride Loops", NVIDIA Technical Blog.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.facts.guards import guarded_loops
from warplens_tools.cuda.facts.lane_walks import walks_of_lanes
from warplens_tools.cuda.facts.shares import deals_shares
from warplens_tools.cuda.values.forms import ONE
from warplens_tools.finding import Finding
from warplens_tools.machine.coalescing import WarpAccess
from warplens_tools.machine.counted import Wasteful
from warplens_tools.micro.common.coalescing import CoalescingTool
from warplens_tools.sass.pipes import GLOBAL_ATOMICS, space_of
from warplens_tools.sass.varying import chosen_apart

#: Share of a loop's accesses from which walks through chunks are what it is about.
MOST = 0.5


class PerThreadChunks(CoalescingTool):
    """A contiguous chunk for each thread: lanes of a warp are a chunk apart."""

    code = "WL104"
    slug = "per-thread-chunks"
    title = "Blocked distribution: each thread reads a contiguous chunk"
    avoid = (
        "Do not keep each thread's elements next to each other: neighbouring threads must read neighbouring "
        "elements."
    )
    rule_words = "uncoalesced|access pattern.*global|stride"
    cause = "chunk"
    guidance_hidden = guidance_counted = (
        "Use a grid-stride loop (start at the thread's global index, step by the number of threads), so that the lanes "
        "of a warp read neighbouring elements in every iteration."
    )

    def words(self, worst: WarpAccess) -> tuple[str, str]:
        """Message and guidance."""
        text, name = self.view.said(worst.access.span), worst.access.name
        return (
            f"Blocked distribution of {name}, uncoalesced: {text} takes {worst.sectors} sectors per request in the "
            f"loop of line {worst.access.loops[-1].span.line}, {worst.ideal_sectors} would suffice.",
            f"Go through {name} in a grid-stride loop (start at the thread's global index, step by the number of "
            "threads), so that the lanes of a warp read neighbouring elements in every iteration; where a thread "
            "needs its chunk in order, stage it through shared memory.",
        )

    def words_counted(self, found: Wasteful) -> str:
        """The message."""
        return (
            f"Blocked distribution, uncoalesced: the loads of this line take {found.ratio:.1f} times the sectors that "
            "hold their data."
        )

    def check_hidden(self) -> Iterator[Finding]:
        """A chunk whose bounds each thread loads: how far apart the lanes are is in the data. Else what only SASS
        shows."""
        found = [a for a in self._loaded_chunks() if self.sass.global_on(a.span.line)] if self.sass else []
        if not found:
            yield from list(self._as_sure(super().check_hidden())) or self._by_started()
            return
        worst, loop = found[0], found[0].loops[-1]
        text, name = self.view.said(worst.span), worst.name
        # How long the chunks are, and which threads come to them, is in the data: of six such warnings readers called
        # none right (tests/wild/labels).
        yield self.finding(
            worst.span,
            severity="information",
            confidence="medium" if self._share(found) >= MOST else "low",
            message=(
                f"Blocked distribution of {name}, uncoalesced: each lane reads {text} from a start of its own "
                "that it loads, "
                f"up to 32 cache lines per request in the loop of line {loop.span.line}."
            ),
            guidance=(
                f"Give each chunk of {name} to a warp (or to 2 to 16 lanes where chunks are short): the lanes read "
                "neighbouring elements and combine their results by shuffles."
            ),
            evidence=(
                self.view.observe("chunks that the lanes of a warp read side by side", text, tier="source"),
            ),
        )

    def _by_started(self) -> Iterator[Finding]:
        """Walks whose start comes of what each lane loads: rows of a matrix or features of a point that data chooses,
        element after element. How long and how far apart they are is in the data."""
        found = [
            a
            for a in walks_of_lanes(self.view.global_accesses, self.view.said)
            if self._is_compiled(a) and not self._is_outside(a)
        ]
        if not found:
            return
        worst = found[0]
        text, names = self.view.said(worst.span), " and ".join(dict.fromkeys(a.name for a in found[:3]))
        yield self.finding(
            worst.span,
            severity="information",
            confidence="low",
            message=(
                f"Each lane walks on through {names} from a start of its own that it loads: {text} takes up to 32 "
                f"sectors per request in the loop of line {worst.loops[-1].span.line}, and one lane's row is as long "
                "as the warp waits."
            ),
            guidance=(
                "Give each row to a warp (or to 4 to 16 lanes where rows are short), whose lanes read neighbouring "
                "elements and combine their parts by shuffles; or load 16 bytes at once (float4), where alignment "
                "allows."
            ),
            evidence=(
                self.view.observe(
                    "accesses that walk so", ", ".join(self.view.said(a.span) for a in found), tier="source"
                ),
            ),
        )

    def _is_outside(self, walk: ArrayAccess) -> bool:
        """Whether loops within loops of its own go through global memory, beside which one element an iteration is
        little."""
        own = [loop.span for loop in walk.loops]
        inner = (a for a in self.view.global_accesses if len(a.loops) > len(own) + 1)
        return any([loop.span for loop in a.loops[: len(own)]] == own for a in inner)

    def _is_compiled(self, access: ArrayAccess) -> bool:
        line = access.span.line
        return not self.sass or bool(self.sass.in_loops_on(line, lambda x: x.opcode == "LDG"))

    def _as_sure(self, found: Iterable[Finding]) -> Iterator[Finding]:
        """What SASS shows without the distance of the lanes is a blocked distribution where the text divides the work
        by the threads, or where each lane loads what its start is made of; else neighbouring lanes may be an element
        apart, in rows or boxes that adjoin or overlap."""
        worst = self.worst_hidden
        for finding in found:
            if worst is None or worst.stride is not None or deals_shares(self.view.tree, self.view.kernel):
                yield finding
                continue
            # Starts that are worked out by clamps and branches lie side by side more often than not: windows.
            chosen = chosen_apart(self.sass.instructions, self.sass.lane_dependent)
            few = guarded_loops(self.view.tree, self.view.kernel, self.view.dim3)
            if chosen & set(worst.indices) and not any(loop.contains_line(finding.line) for loop, _ in few):
                yield msgspec.structs.replace(
                    finding, severity="information", confidence="low", gain=None,
                    missing=(*finding.missing, "how far apart neighbouring lanes are"),
                    message="Each lane walks on through neighbouring elements on this line: uncoalesced where "
                    "neighbouring lanes start more than a sector apart.",
                    guidance="Where the lanes start far apart, let neighbouring lanes take neighbouring elements, load "
                    "several elements at once, or stage the stretches through shared memory.",
                )  # fmt: skip

    def _share(self, walks: Sequence[ArrayAccess]) -> float:
        """Share of the walks in the accesses to global memory of their loops, atomics and what functions do included: a
        warp a chunk makes nothing else coalesced."""
        sass = self.sass
        moves = sass.where(lambda x: space_of(x) in ("global", "generic") or x.opcode in GLOBAL_ATOMICS)
        own = 0.0
        for line in {walk.span.line for walk in walks}:
            every = [a for a in self.view.global_accesses if a.span.line == line]
            part = sum(walk.span.line == line for walk in walks) / len(every)
            # What functions do that the line calls stands on lines of their own.
            own += part * sum(sass.written[i] == line for i in sass.global_on(line))
        blocks = [sass.flow.instructions_of(loop) for loop in sass.flow.loops]
        walked = {i for walk in walks for i in sass.global_on(walk.span.line)}
        around = {i for inside in blocks if walked & set(inside) for i in inside}
        return own / max(sum(i in around for i in moves), 1)

    def _loaded_chunks(self) -> list[ArrayAccess]:
        """Reads `v[j]` in `for (j = start[row]; …; ++j)` where each thread has a row of its own, as in a "
        "CSR product."""
        every = self.view.global_accesses
        apart = [a for a in every if a.index is not None and a.index.coefficient("threadIdx.x")]
        own = {self.view.said(a.span) for a in apart}
        return [a for a in every if a.reads and self._walks_loaded(a, own)]

    def _walks_loaded(self, access: ArrayAccess, per_thread: set[str]) -> bool:
        loop = access.loops[-1] if access.loops else None
        if loop is None or access.index is not None or access.indices != (loop.variable,) or loop.step != ONE:
            return False
        _, _, first = self.view.said(loop.span).partition(";")[0].partition("=")
        start = first.strip()
        assigned = rf"\b{re.escape(start)}\s*=\s*([^;,]+)[;,]"
        named = re.search(assigned, self.view.body) if start.isidentifier() else None
        return (named[1] if named else first).strip() in per_thread
