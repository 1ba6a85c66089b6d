# SPDX-License-Identifier: Apache-2.0
"""swapped-shared-sums

**What.** Floating-point sums are kept in shared memory by atomics, which the card does by loops of compare-and-swap.

**Why it costs.** Shared memory adds integers in one instruction, floating-point numbers not: the compiler makes
`atomicAdd` of a `float` or `double` a loop that loads, adds and swaps until no other lane came between. Lanes that meet
at a word go around it one after the other, each time with the latency of shared memory twice.

**Wrong**

```cuda
__shared__ float histogram[256];
atomicAdd(&histogram[bin[i]], gradient[i]);          // a loop for each add
```

**Right**

```cuda
__shared__ int histogram[256];                       // fixed point: one native instruction an add
atomicAdd(&histogram[bin[i]], __float2int_rn(gradient[i] * scale));
// or sums in registers, sorted runs reduced by shuffles first, or a copy of the table for each warp
```

**Evidence.** SASS: compare-and-swap of shared memory (`ATOMS.CAST`, `ATOMS.CAS`), as often as it runs.

**Threshold.** In a loop, or two of them. It is information: how often lanes meet is in the data. What
shared-atomic-contention tells is left alone.

**References.** CUDA C++ Programming Guide, "Atomic Functions"; N. Sakharnykh, "GPU Pro Tip: Fast Histograms Using
Shared Atomics on Maxwell", NVIDIA Technical Blog.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from warplens_tools.evidence import Instruction
from warplens_tools.finding import Finding, count
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.shared_atomic_contention import SharedAtomicContention

_SWAPS = frozenset({"CAS", "CAST"})
_SEVERAL = 2


class SwappedSharedSums(MicroTool):
    """Atomics on shared floats are loops of compare-and-swap."""

    code = "WL129"
    slug = "swapped-shared-sums"
    title = "Sums in shared memory by loops of compare-and-swap"
    avoid = (
        "Do not round to fixed point where the sum may overflow or the comparison of results does not allow "
        "it."
    )
    rule_words = "atomic"
    tiers = ("binary",)
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line whose swaps weigh most."""
        # Of a pointer that may be anywhere the compiler writes a path for shared memory beside that for global memory.
        either = (
            {self.sass.lines[i] for i in self.sass.where(lambda x: x.opcode == "QSPC")}
            if self.sass
            else set()
        )
        found = [i for i in self.sass.where(_swaps) if self._is_sure(i, either)] if self.sass else []
        if len(found) < _SEVERAL and not any(self.sass.flow.depths[i] for i in found):
            return
        if SharedAtomicContention.told(self.view):
            return
        place = self.hottest_place(found)
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="medium",
            message=(
                f"{count(len(found), 'shared atomic')}{self.written_in(found)} by compare-and-swap: shared memory has "
                "no floating-point add, so that each is a loop, which lanes that meet at a word go around in turn."
            ),
            guidance=(
                "Add integers (fixed point), for which shared memory has an instruction; or reduce what goes to one "
                "word first (in registers, by shuffles over lanes with one key), or give each warp a copy of its own."
            ),
            evidence=(self.view.observe("compare-and-swaps of shared memory", float(len(found))),),
        )

    def _is_sure(self, index: int, either: Collection[int | None]) -> bool:
        return index not in self.sass.flow.rare and self.sass.lines[index] not in either


def _swaps(instruction: Instruction) -> bool:
    return instruction.opcode == "ATOMS" and bool(_SWAPS & set(instruction.modifiers))
