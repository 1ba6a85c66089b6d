# SPDX-License-Identifier: Apache-2.0
"""all-pairs

**What.** The thread of each element goes through all elements: particles against particles, points against points.

**Why it costs.** The work grows with the square of the number of elements, and the only parallel axis is the elements
themselves: for a few thousand of them most of the card is idle while each thread walks its thousands of steps one after
the other; for a million the work is what no card does.

**Wrong**

```cuda
for (int j = 0; j < n; ++j)
    if (j != i) force += pull(x[i], x[j]);
```

**Right**

```cuda
// short range: a cell grid, and only the elements of the cells around i; long range: a tree, or a convolution by FFT;
// else split the walk over threads: block (i / 128, part) takes j from part * n / parts on, and parts are added
```

**Evidence.** A loop of a length that the launch passes in which an array is read at the loop's counter alone, while
each thread reads the same array at its own index outside of the counter; or a loop up to the number that the thread's
index is held against, which leaves the thread's own element out (`if (j == i) continue;`) or begins behind it, and
reads one array at both places or hands both to a function. A loop that stores elements of the array which it goes to in
turn works on it in place (an elimination, shortest paths) and is none.

**Threshold.** None for such a loop. It is information: how many elements there are, and how far they act, is not known.

**References.** Nyland, Harris and Prins, "Fast N-Body Simulation with CUDA" (GPU Gems 3, chapter 31); Green, "Particle
Simulation using CUDA" (NVIDIA, 2010).
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.facts.pair_loops import pair_loops
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool
from warplens_tools.text import Span

_THREADS = frozenset({"thread", "block"})


class AllPairs(MicroTool):
    """Each thread goes through all elements."""

    code = "WL222"
    slug = "all-pairs"
    title = "Each thread goes through all elements: work of all pairs"
    avoid = (
        "Do not leave out pairs that act on each other; do not add parts in another order where the bits must"
        " stay."
    )
    rule_words = "issue|pipeline is the highest|grid"
    tiers = ("source", "binary")
    relevant = ("compute", "latency", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the loop over the other elements."""
        yield from list(self._at_counter()) or self._as_written()

    def _as_written(self) -> Iterator[Finding]:
        """A loop that leaves the thread's own element out, or begins behind it."""
        found = pair_loops(self.view.tree, self.view.kernel)
        if found:
            own, other = found[0].own, found[0].other
            yield self._told(
                found[0].span,
                f"All pairs: the thread of {own} goes through all {other}, one after the other; the work grows with "
                "the square of their number, and there are only as many threads as elements.",
                f"{own} and {other}",
            )

    def _at_counter(self) -> Iterator[Finding]:
        """Elements that all threads read one by one, of an array of which each has its own."""
        every = [a for a in self.view.global_accesses if a.reads and a.index is not None]
        apart: dict[tuple[str, str], list[ArrayAccess]] = {}
        for a in every:
            if a.index is not None and any(s.kind == "thread" for s in a.index.symbols):
                apart.setdefault((a.name, a.member), []).append(a)
        for access in every:
            loop = access.loops[-1] if access.loops else None
            if loop is None or not loop.counter or loop.bound is None or loop.bound.value is not None:
                continue
            own = apart.get((access.name, access.member), [])
            if not _goes_alone(access, loop.counter) or all(_mentions(a, loop.counter) for a in own):
                continue
            if not all(s.kind == "parameter" for s in loop.bound.symbols) or self._is_worked_on(access):
                continue
            text = self.view.said(access.span)
            yield self._told(
                loop.span,
                f"All pairs: the thread of each element of {access.name} goes through all of them ({text}), one after "
                "the other; the work grows with the square of their number, and there are only as many threads as "
                "elements.",
                text,
            )
            return

    def _is_worked_on(self, access: ArrayAccess) -> bool:
        """Whether the loop stores elements of the array that it goes to in turn: rows that an elimination or a search
        for shortest paths works on in place, and no elements that are held against each other."""
        loop = access.loops[-1]
        return any(
            a.writes and a.name == access.name and a.member == access.member and _mentions(a, inner.counter)
            for a in self.view.global_accesses
            for inner in a.loops
            if inner.counter and any(around.offset == loop.offset for around in a.loops)
        )

    def _told(self, loop: Span, message: str, read: str) -> Finding:
        return self.finding(
            self.view.line_span(loop.line),
            severity="information",
            confidence="low",
            message=message,
            guidance=(
                "Where far elements do not matter, sort them into cells and visit the cells around, keep a list of "
                "neighbours while they hardly move, or use a tree (an FFT on a regular grid); else deal the walk out "
                "over several threads or blocks for each element and add their parts, with tiles of the others in "
                "shared memory."
            ),
            evidence=(self.view.observe("read at the loop's counter alone", read, tier="source"),),
        )


def _goes_alone(access: ArrayAccess, counter: str) -> bool:
    """Whether it is read at the loop's counter, the same for all threads."""
    index = access.index
    return (
        index is not None and index.mentions(counter) and not any(s.kind in _THREADS for s in index.symbols)
    )


def _mentions(access: ArrayAccess, counter: str) -> bool:
    return access.index is not None and access.index.mentions(counter)
