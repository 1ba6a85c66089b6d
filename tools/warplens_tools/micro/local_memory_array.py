# SPDX-License-Identifier: Apache-2.0
"""local-memory-array

**What.** A per-thread array is indexed by a value the compiler does not know, so it cannot live in
registers: every access is a local-memory load or store.

**Why it costs.** Registers have no addresses. An array indexed by a run-time value is placed in local
memory, which is device memory behind the L1 cache: each access takes the load/store pipe and tens of
cycles at best, and 32 threads each touch their own copy.

**Wrong**

```cuda
int at = K - 1;
while (at > 0 && best[at - 1] > d) {   // `at` is only known at run time
    best[at] = best[at - 1];
    --at;
}
```

**Right**

```cuda
#pragma unroll
for (int k = K - 1; k > 0; --k)        // every index is a constant after unrolling
    if (best[k - 1] > d) best[k] = best[k - 1];
    else if (best[k] > d) best[k] = d;
```

**Evidence.** `LDL`/`STL` instructions whose address is not the stack pointer plus a constant, the source
lines they come from, and the bytes of stack frame that ptxas reports beyond its spills.

**Threshold.** Any such access is reported: the array was asked to live in registers and does not. Information
without a gain where neither registers (64 words a thread) nor shared memory (48 KB a block) can take the stack
frame: the cure is another algorithm then; and where only shared memory can and the grid is not known.
The arguments of a `printf` do not count. Counters that show no sector of local memory moved withdraw it.

**References.** CUDA C++ Programming Guide, "Local Memory"; CUDA C++ Best Practices Guide, "Local Memory".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.cuda.model import ArrayDeclaration
from warplens_tools.finding import Finding, RelatedSpan
from warplens_tools.lazily import cached_property
from warplens_tools.machine.local_memory import local_gain
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import judge_by_local
from warplens_tools.micro.register_spills import spill_indices
from warplens_tools.sass.pipes import on_stack

#: Bytes of a thread's arrays up to which registers can take them: a quarter of the 255 words that a thread may have.
MOST_KEPT = 256
#: Threads of a block where the launch is not known.
USUAL_THREADS = 256


class LocalMemoryArray(MicroTool):
    """A local array is indexed by a run-time value."""

    code = "WL110"
    slug = "local-memory-array"
    title = "A local array is indexed by a run-time value"
    avoid = (
        "Do not only unroll in part: one index that is left at run time keeps the whole array in local "
        "memory."
    )
    rule_words = "local memory"
    tiers = ("binary",)
    relevant = ("memory", "latency", "compute")
    judges = (judge_by_local,)

    def check(self) -> Iterator[Finding]:
        """One finding for the instantiation with the most dynamic local accesses, on their hottest line."""
        most = max(self.instances(), key=lambda tool: len(tool.dynamic_indices), default=None)
        if most is not None and most.dynamic_indices:
            yield most._found(most.dynamic_indices)

    @cached_property
    def dynamic_indices(self) -> list[int]:
        """Indices of local accesses that are neither spills, nor the math library's, nor the arguments of a `printf`,
        which are handed over in local memory: an array without registers. None where no address is worked out."""
        compiled = self.view.compiled
        spills = {*spill_indices(compiled), *self.sass.flow.rare} if compiled is not None else set()
        found = [i for i in self.sass.where(lambda x: x.opcode in {"LDL", "STL"}) if i not in spills]
        found = [i for i in found if "printf" not in self.view.text.line_text(self.sass.written[i] or 1)]
        # what is `volatile`, or has its address taken, lies at a constant place of the stack
        return found if any(not any(map(on_stack, self.sass.instructions[i].operands)) for i in found) else []

    def _found(self, dynamic: list[int]) -> Finding:
        line = self.sass.hottest_line(dynamic)
        arrays = self._arrays(line)
        names = " and ".join(a.name for a in arrays) or "a local array"
        in_loop = any(self.sass.flow.depths[i] for i in dynamic)
        stack = self.view.compiled.resources.stack_bytes if self.view.compiled is not None else 0
        kept = stack <= MOST_KEPT
        columns = (
            stack * (self.view.threads or USUAL_THREADS) <= self.gpu.limits.default_shared_bytes_per_block
        )
        cure = (
            f"Make every index of {names} a compile-time constant (a fully unrolled loop that selects by comparison "
            "instead of by index), or move the array to shared memory with one column per thread."
            if kept
            else f"Move {names} to shared memory with one column per thread, or make it small enough for registers."
            if columns
            else f"{names} fits neither registers nor shared memory ({stack} bytes a thread): hold fewer or narrower "
            "elements, or let several threads share one array."
        )
        # What shared memory is ahead of the L1 by hangs on how many threads' arrays the L1 has to hold.
        told = kept or (columns and self.view.shape is not None)
        return self.finding(line,
            severity="warning" if told else "information",
            confidence="high" if told else "medium",
            message=(
                f"{names} {'live' if len(arrays) > 1 else 'lives'} in local memory: indexed by a run-time value, "
                f"{len(dynamic)} local loads and stores per thread{' in a loop' if in_loop else ''}."
            ),
            guidance=cure,
            evidence=(
                self.view.observe("local loads and stores at run-time addresses", float(len(dynamic)),
                    "instructions", 0.0, "an array in registers has none",
                ),
                self.view.observe("stack frame", float(stack), "byte/thread"
                ),
            ),
            gain=local_gain(self.view, dynamic, self.view.traffic.cycles()) if told else None,
            related=tuple(RelatedSpan(a.span, f"{a.name} is declared here") for a in arrays),
        )  # fmt: skip

    def _arrays(self, line: int | None) -> list[ArrayDeclaration]:
        """The kernel's local arrays that the line mentions; all of them where the line mentions none."""
        local = [a for a in self.view.kernel.arrays if a.space == "local"]
        text = "" if line is None else self.view.text.line_text(line)
        named = [a for a in local if re.search(rf"\b{re.escape(a.name)}\b", text)]
        return named or (local if len(local) == 1 else [])
