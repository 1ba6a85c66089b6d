# SPDX-License-Identifier: Apache-2.0
"""owned-sums

**What.** Threads add atomically to an element that one thread could own: it hangs on some parts of a flat thread index
alone, or on some axes of the block, so that a fixed set of threads adds to each.

**Why it costs.** An atomic is done in the L2, one after the other where threads meet, and the array must be zeroed
before. Where it is known which threads add to an element, one of them can loop over what they add and store once, or
they can reduce by shuffles and do one atomic.

**Wrong**

```cuda
int p = i % points, tap = i / points;                   // nine threads for each point
atomicAdd(&out[p], weight(p, tap) * in[tap * points + p]);
```

**Right**

```cuda
float sum = 0.0f;
for (int tap = 0; tap < 9; ++tap) sum += weight(p, tap) * in[tap * points + p];
out[p] = sum;                                           // no atomic, nothing to zero
```

**Evidence.** The index of an atomic addition of global memory as a form over the thread's index: all that it takes of
it are remainders, or quotients, or an axis of the block that the kernel uses is not in it; or a loop around it that
moves none of the names that choose the element.

**Threshold.** Lanes and blocks that are single threads by a test are left alone. It is information: the elements may be
few, so that threads are wanted.

**References.** CUDA C++ Programming Guide, "Atomic Functions"; NVIDIA Technical Blog, "Faster Parallel Reductions on
Kepler".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.cuda.facts.atomics import Atomic, atomics
from warplens_tools.cuda.facts.read_again import is_long
from warplens_tools.cuda.values.forms import Form, Symbol, describe
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool

_LANE = "threadIdx.x"
_AXIS = re.compile(r"\b(threadIdx)\.([yz])\b")
_SUMS = frozenset({"atomicAdd", "atomicSub", "atomicMin", "atomicMax", "atomicOr"})
#: Letters of a divisor that a message spells.
_SPELLED = 40


class OwnedSums(MicroTool):
    """Atomics on elements that one thread could own."""

    code = "WL123"
    slug = "owned-sums"
    title = "Atomics on elements that one thread could own"
    avoid = (
        "Do not give so few threads the elements that the card is idle; do not drop the atomic where a second"
        " kernel or block adds too."
    )
    rule_words = "atomic"
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first such atomic."""
        for atomic in atomics(self.view.tree, self.view.kernel, self.view.dim3):
            told = self._who(atomic)
            if told:
                yield self._told(atomic, told)
                return
            if self._is_repeated(atomic):
                yield self._of_one_thread(atomic)
                return

    def _is_repeated(self, atomic: Atomic) -> bool:
        """Whether a thread adds to one element of its own in every iteration of a long loop, and asks for no result."""
        index, loop = atomic.index, atomic.loops[-1] if atomic.loops else None
        if loop is None or index is None or index.uniform or loop in atomic.walked or not is_long(loop):
            return False
        if atomic.space != "global" or atomic.claimed or atomic.plain not in _SUMS:
            return False
        moved = (loop.counter, f"{loop.variable}@{loop.offset}", f"iteration@{loop.offset}")
        before = self.view.text.line_text(atomic.span.line)[: atomic.span.column - 1].rstrip()
        alone = not before or before[-1] in ";{})" or before.endswith("else")
        return alone and not any(name and index.mentions(name) for name in moved)

    def _of_one_thread(self, atomic: Atomic) -> Finding:
        text = self.view.said(atomic.span)
        return self.finding(
            atomic.span,
            severity="information",
            confidence="low",
            message=(
                f"Atomic in every iteration on one element: {text} goes to the L2 each time around the loop of line "
                f"{atomic.loops[-1].span.line}, on which its place does not depend."
            ),
            guidance=(
                f"Sum in a register over the loop and add to {atomic.name} once behind it; where no other thread adds "
                "to the element, store it without an atomic."
            ),
            evidence=(self.view.observe("atomic on the thread's element", atomic.function, tier="source"),),
        )

    def _who(self, atomic: Atomic) -> str:
        """Which threads meet at an element, in words; "" where that is not known."""
        if atomic.plain not in _SUMS or atomic.space != "global" or atomic.index is None or atomic.leader:
            return ""
        left_out = self._left_out(atomic.index)
        if left_out or atomic.guarded:
            return left_out
        parts = [s for symbols, _ in atomic.index.terms for s in symbols if s.mentions(_LANE)]
        if not parts or any(s.operation not in ("/", "%") for s in parts):
            return ""
        last = min(parts, key=lambda s: _depth(s.operands[0]))
        by = describe(last.operands[1])
        if len(by) > _SPELLED or not last.operands[1].uniform:
            return ""
        if all(s.operation == "/" for s in parts):
            return f"{by} neighbouring threads"
        return "" if any(s.operation == "/" for s in parts) else self._remainders(parts)

    def _left_out(self, index: Form) -> str:
        """The threads along an axis of the block that the element does not hang on, though each has work of its own."""
        used = set(_AXIS.findall(self.view.body))
        out = [
            axis
            for axis in "yz"
            if ("threadIdx", axis) in used
            and self.view.dim3["xyz".index(axis)] != 1
            and not any(index.mentions(f"{of}.{axis}") for of in ("threadIdx", "blockIdx"))
        ]
        return f"all threads that differ in threadIdx.{out[0]} alone" if out and index.mentions(_LANE) else ""

    def _remainders(self, parts: list[Symbol]) -> str:
        highest = max(parts, key=lambda s: _depth(s.operands[0]))
        by = describe(highest.operands[1])
        return f"all threads with the same remainder of {by}" if len(by) <= _SPELLED else ""

    def _told(self, atomic: Atomic, who: str) -> Finding:
        return self.finding(
            atomic.span,
            severity="information",
            confidence="low",
            message=(
                f"Atomic on an element that one thread could own: {who} add to one element of {atomic.name}."
            ),
            guidance=(
                f"Let one thread loop over what these threads add and store each element of {atomic.name} once, or "
                "combine by shuffles where they are lanes of one warp, with an atomic by the first of them alone."
            ),
            evidence=(
                self.view.observe("atomic on a part of the thread's index", atomic.function, tier="source"),
            ),
        )


def _depth(form: Form) -> int:
    """How many divisions deep an operand is."""
    inner = [s for symbols, _ in form.terms for s in symbols if s.mentions(_LANE)]
    return max((1 + _depth(s.operands[0]) for s in inner if s.operands), default=0)
