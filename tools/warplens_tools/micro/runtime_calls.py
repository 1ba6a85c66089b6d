# SPDX-License-Identifier: Apache-2.0
"""runtime-calls

**What.** Every thread prints, or takes memory from the device's heap (`malloc`, `new`) and gives it back.

**Why it costs.** `printf` formats into one buffer that all threads of the device share, and that the host empties when
it next waits: thousands of lines cost far more than most kernels. The heap is one structure for all threads:
allocations wait for each other and take microseconds, and what they return is global memory that neighbouring lanes
have at places of their own, so that nothing of it is coalesced. Either is a call that registers are kept over.

**Wrong**

```cuda
float *tmp = new float[n];              // for every thread
printf("%d: %f\\n", i, x[i]);
delete[] tmp;
```

**Right**

```cuda
float tmp[kMost];                       // of a fixed size, in registers or local memory; or a part of shared memory
// or one cudaMalloc by the host, from which element k of thread i is tmp[k * threads + i]
```

**Evidence.** The call in the source, in the kernel or in a device function of its file that it calls.

**Threshold.** None. Calls behind a test of data, which report an error, and those of a few threads of a block are left
out. It is information: how long the kernel is beside that is not known.

**References.** CUDA C++ Programming Guide, "Formatted Output" and "Dynamic Global Memory Allocation and Operations".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.runtime_calls import RuntimeCall, runtime_calls
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool


class RuntimeCalls(MicroTool):
    """Every thread prints or takes memory from the heap."""

    code = "WL225"
    slug = "runtime-calls"
    title = "Every thread prints or takes memory from the device's heap"
    avoid = (
        "Do not take out a print that the program's output or a test rests on; do not give each thread a "
        "local array larger than what was asked for."
    )
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute", "launch")

    def check(self) -> Iterator[Finding]:
        """One finding for each of the two, on the first call in a loop, else on the first."""
        if self.view.launches.is_of_one_thread:
            return  # one thread waits for nobody
        every = runtime_calls(self.view.tree, self.view.kernel)
        for kind, words in (("heap", self._of_heap), ("print", self._of_print)):
            found = sorted((c for c in every if c.kind == kind), key=lambda c: not c.looped)
            if found:
                yield self._told(found, *words(found[0]))

    def _told(self, found: list[RuntimeCall], message: str, guidance: str) -> Finding:
        return self.finding(
            found[0].span,
            severity="information",
            confidence="medium",
            message=message,
            guidance=guidance,
            evidence=(self.view.observe("calls of the run-time system", float(len(found)), tier="source"),),
        )

    def _of_heap(self, first: RuntimeCall) -> tuple[str, str]:
        return (
            f"Memory of the device's heap for each thread: {self._text(first)}{_where(first)}. All threads share one "
            "heap, wait for each other there, and get places of global memory that no request of a warp joins.",
            "Where a most is known, use a local array of that size, best one whose indices are constants; else let the "
            "host allocate once for all threads, element k of thread i at [k * threads + i], or take shared memory.",
        )

    def _of_print(self, first: RuntimeCall) -> tuple[str, str]:
        return (
            f"printf in every thread{_where(first)}: each call formats into the one buffer that all threads share and "
            "the host empties, which takes longer than the rest of most kernels.",
            "Take the call out of what is timed (under #ifdef), let one thread print, or store the values and print "
            "them on the host.",
        )

    def _text(self, first: RuntimeCall) -> str:
        return self.view.said(first.span)


def _where(call: RuntimeCall) -> str:
    return f" in {call.function}" if call.function else " in a loop" if call.looped else ""
