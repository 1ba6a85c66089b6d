# SPDX-License-Identifier: Apache-2.0
"""elements-read-again

**What.** A thread reads elements of global memory that it had before: a loop around the loop that reads them goes
through the same ones in every iteration, or a second loop goes through what the first one read or wrote.

**Why it costs.** The caches may have them or not: a stretch of a few elements stays in the L1 and costs its latency and
a place in the load/store pipe each time; a long row, for all the threads of an SM, comes from the L2 or device memory
again.

**Wrong**

```cuda
for (int i = 0; i < clusters; ++i)
    for (int j = 0; j < coordinates; ++j)
        distance += square(objects[j * n + own] - centres[i][j]);   // the object again for each cluster
for (int k = threadIdx.x; k < n; k += blockDim.x) top = fmaxf(top, row[k]);
for (int k = threadIdx.x; k < n; k += blockDim.x) sum += expf(row[k] - top);   // the row again
```

**Right**

```cuda
float own[kCoordinates];                    // once, in registers (or shared memory)
// or one pass: the running maximum, with the sum scaled where it grows
```

**Evidence.** Index and loops in the source: an index that the inner loop moves and the outer one does not, or two loops
with the same index, first value, step and bound; where SASS is at hand, global loads on their lines.

Sums that are kept in global or shared memory are the same: an element that a loop adds to (`a[i] += x`) while another
one around it, or the next iteration, comes to it again; so is the state of a random number generator that a loop draws
from through its address (`curand_normal(&states[i])`).

Outside loops, and within one iteration: SASS loads from an address that the thread loaded from or stored to before, as
a store stands between that may have changed it. Where nothing of all this is there: two numbers and more that the
kernel is passed by pointer, does nothing else with, and reads in loops.

**Threshold.** Loops of more than 8 iterations, or of a number that is not known. It is information: how much of it the
caches have is not known. Where the array is stored to at other elements meanwhile, nothing is said. Outside loops four
loads and a quarter of the kernel's, as often as each runs, or eight.

**References.** CUDA C++ Best Practices Guide, "Data Access Optimizations"; Milakov and Gimelshein, "Online normalizer
calculation for softmax" (2018).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.facts.generator_states import drawn_in_loops
from warplens_tools.cuda.facts.memory_sums import MemorySum, memory_sums, stored_sums
from warplens_tools.cuda.facts.passed_numbers import passed_numbers
from warplens_tools.cuda.facts.read_again import ReadAgain, read_again
from warplens_tools.evidence import Instruction
from warplens_tools.finding import Finding, RelatedSpan
from warplens_tools.micro.aliasing_reload import AliasingReload
from warplens_tools.micro.base import MicroTool
from warplens_tools.sass.again import loaded_again

#: Loads of addresses that the thread had from which they are told, and their share of its global loads; loads that are
#: many; names shown.
AGAIN, SHARE, MANY, _SHOWN = 4, 0.25, 8, 4
#: Numbers behind pointers from which they are told: one may be what a launch before has counted.
_NUMBERS = 2
#: What makes threads see each other's shared memory: the sums are then not each thread's own.
_SHARES = re.compile(r"__sync|\bsync\s*\(|__shfl|barrier")
#: What an element names, and is not: the loads through it are other instructions, which caches of their own serve.
_HANDLES = (["cudaTextureObject_t"], ["cudaSurfaceObject_t"])


class ElementsReadAgain(MicroTool):
    """A thread reads elements of global memory again that it had before."""

    code = "WL117"
    slug = "elements-read-again"
    title = "Elements of global memory are read again by the thread that had them"
    avoid = (
        "Do not keep in registers or shared memory what does not fit there, nor what another thread writes in"
        " between."
    )
    rule_words = "cache|locality|L2|DRAM"
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """Of sums that are kept in memory, of generators' states and of reads one finding each, on the first in the
        deepest loop; where there is none, of elements that are loaded again one statement after the other."""
        found = [*self._sums(), *self._states(), *self._reads()]
        yield from found or list(self._behind_own_stores()) or self._numbers()

    def _numbers(self) -> Iterator[Finding]:
        """Single numbers behind pointers, which loops load again."""
        found = passed_numbers(self.view.kernel, self.view.body, self.view.accesses)
        if self.sass:
            found = tuple(a for a in found if self.sass.in_loops_on(a.span.line, _is_global_load))
        if len(found) < _NUMBERS:
            return
        names = list(dict.fromkeys(a.name for a in found))
        yield self.finding(
            found[0].span,
            severity="information",
            confidence="low",
            message=(
                f"Numbers through memory: {', '.join(names[:_SHOWN])} point to one number each, which loops of this "
                "kernel load from global memory again and wait for."
            ),
            guidance=(
                "Pass them by value: arguments lie in constant memory, which all threads read at once, and a loop's "
                "bound is then known before it begins."
            ),
            evidence=(
                self.view.observe(
                    "numbers that loops read through pointers", float(len(names)), tier="source"
                ),
            ),
        )

    def _sums(self) -> Iterator[Finding]:
        found = [s for s in memory_sums(self.view.accesses) if self._is_loaded(s.access) and self._is_own(s)]
        if self.sass and not found:
            stored = stored_sums(self.view.accesses, self.view.said)
            found = [s for s in stored if self._is_loaded(s.access) and self._is_stored(s.access)]
            found = [s for s in found if self._is_own(s)]
            told = {f.line for f in AliasingReload.told(self.view)} if found else set()
            found = [s for s in found if s.access.span.line not in told]
        if not found:
            return
        worst = min(found, key=lambda s: s.access.space != "global")
        text, name = self.view.said(worst.access.span), worst.access.name
        kept = "registers or shared memory" if worst.access.space == "global" else "registers"
        yield self.finding(
            worst.access.span,
            severity="information",
            confidence="low",
            message=self._message_of_sum(worst, text),
            guidance=(
                f"Sum in a register and store each element of {name} once: let the loop over the elements be the outer "
                f"one, or keep those of an iteration in {kept} until they are complete."
            ),
            evidence=(
                self.view.observe("arrays that hold sums", ", ".join(dict.fromkeys(s.access.name for s in found)),
                                  tier="source"),
            ),
        )  # fmt: skip

    def _message_of_sum(self, worst: MemorySum, text: str) -> str:
        line, place = worst.around.span.line, f"{worst.access.space} memory"
        if worst.updates > 1:
            return (
                f"Sum kept in {place}: {text} is one of {worst.updates} updates in each iteration of the loop of line "
                f"{line}, and the next iteration loads and stores the same elements again."
            )
        return (
            f"Sum kept in {place}: {text} is loaded and stored again in every iteration of the loop of line {line}, "
            f"on which its index does not depend."
        )

    def _is_own(self, found: MemorySum) -> bool:
        """Whether no thread shows its sums of shared memory to others within the loop that comes to them again."""
        return found.access.space == "global" or not _SHARES.search(self.view.said(found.around.span))

    def _states(self) -> Iterator[Finding]:
        found = drawn_in_loops(self.view.tree, self.view.kernel)
        if not found:
            return
        first = found[0]
        yield self.finding(
            first.span,
            severity="information",
            confidence="medium",
            message=(
                f"Generator state kept in global memory: {self.view.said(first.span)} loads, advances and stores an "
                f"element of {first.name} in every iteration of the loop of line {first.loop.line}."
            ),
            guidance=(
                "Copy the state into a local variable before the loop, draw from that, and store it back to "
                f"{first.name} after the loop."
            ),
            evidence=(self.view.observe("draws in loops", float(len(found)), tier="source"),),
        )

    def _reads(self) -> Iterator[Finding]:
        found = [
            r
            for r in read_again(self.view.tree, self.view.accesses)
            if self._is_loaded(r.access) and r.access.element_type.split()[-1:] not in _HANDLES
        ]
        if not found:
            return
        worst = found[0]
        text, name = self.view.said(worst.access.span), worst.access.name
        others = dict.fromkeys(r.access.name for r in found)
        yield self.finding(
            worst.access.span,
            severity="information",
            confidence="low",
            message=self._message(worst, text),
            guidance=(
                f"Keep the elements of {name} that a thread needs in registers or shared memory over the loop, or let "
                "one iteration serve several of its results."
                if worst.around is not None
                else f"Keep what a thread reads of {name} in registers or shared memory for the second loop, or do the "
                "work of both in one pass."
            ),
            evidence=(self.view.observe("arrays that are read again", ", ".join(others), tier="source"),),
            related=(
                (RelatedSpan(worst.before.span, "it had them here"),)
                if worst.before is not worst.access
                else ()
            ),
        )

    def _behind_own_stores(self) -> Iterator[Finding]:
        """Elements that are loaded again where they are used next, as a store stands before it."""
        known = {r.access.span.line for r in AliasingReload(self.view).repeats()}
        again = [i for i in loaded_again(self.sass) if self.sass.lines[i] not in known] if self.sass else []
        every = self.sass.where(lambda x: x.opcode == "LDG")
        # How often a loop beside them runs is not known: many of them are told however little that leaves them to be.
        heavy = self.sass.weigh(again) >= SHARE * self.sass.weigh(every)
        if len(again) < AGAIN or not (heavy or len(again) >= max(MANY, SHARE * len(every))):
            return
        lines = {n for i in again if (n := self.sass.lines[i]) is not None}
        read = [a for a in self.view.global_accesses if a.reads and a.span.line in lines and not a.atomic]
        place = self.hottest_place(again)
        names = ", ".join(list(dict.fromkeys(self.view.said(a.span) for a in read))[:_SHOWN])
        of = f" (of {names})" if names else ""
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="medium",
            message=(
                f"Loaded again: {len(again)} of the {len(every)} global loads{of} are of elements that the thread "
                "loaded or stored before, and that a store between them may have changed as far as the compiler knows."
            ),
            guidance=(
                "Read each element into a local variable once, work on that, and store it once at the end; or declare "
                "the pointers __restrict__ where they never overlap."
            ),
            evidence=(
                self.view.observe(
                    "loads of an address that the thread had", float(len(again)), "", float(AGAIN)
                ),
                self.view.observe("global loads", float(len(every))),
            ),
        )

    def _message(self, worst: ReadAgain, text: str) -> str:
        if worst.around is not None:
            return (
                f"Read again: {text} is loaded from global memory in every iteration of the loop of line "
                f"{worst.around.span.line}, on which its index does not depend."
            )
        done = "written" if worst.before.writes else "read"
        return (
            f"Read again: {text} is loaded from global memory again, after the loop of line "
            f"{worst.before.loops[-1].span.line} has {done} the same elements."
        )

    def _is_stored(self, access: ArrayAccess) -> bool:
        """Whether SASS stores to that memory in loops on the line."""
        opcode = "STS" if access.space == "shared" else "STG"
        return bool(self.sass.in_loops_on(access.span.line, lambda x: x.opcode == opcode))

    def _is_loaded(self, access: ArrayAccess) -> bool:
        """Whether SASS, where it is at hand, has loads of that memory (or stores, where it only stores) in loops on the
        line."""
        line, moves = access.span.line, "LD" if access.reads else "ST"
        opcode = f"{moves}{'S' if access.space == 'shared' else 'G'}"
        return not self.sass or bool(self.sass.in_loops_on(line, lambda x: x.opcode == opcode))


def _is_global_load(instruction: Instruction) -> bool:
    return instruction.opcode == "LDG"
