# SPDX-License-Identifier: Apache-2.0
"""wgmma-serialized

**What.** ptxas could not keep warpgroup matrix multiplies in flight and put a wait after each (its
warnings C7510 and C7511).

**Why it costs.** `wgmma.mma_async` is meant to overlap with the loads of the next tile. Serialised, the
tensor cores idle between instructions; half of their rate or more is lost.

**Wrong**

```cuda
wgmma(accumulator, a, b);        // in a function that is not inlined, or with the accumulator
accumulator[0] += bias;          // touched before wgmma.wait_group
```

**Right**

```cuda
wgmma_fence();
wgmma(accumulator, a, b);        // inlined; the accumulator is not touched
wgmma_commit();
wgmma_wait<0>();
accumulator[0] += bias;
```

**Evidence.** ptxas' own warning, with the reason it gives. Counters tell for how long the tensor pipe stood
still: they confirm the finding, bound its gain, or withdraw it.

**Threshold.** None: ptxas says it or does not.

**References.** PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"; CUTLASS builds with
`-DNDEBUG`, without which its assertions are the function calls ptxas complains of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.evidence import CompilerMessage
from warplens_tools.finding import Finding, Gain
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import CONFIRMED, DRAM, L1, L2, busiest, cap_gain


class WgmmaSerialized(MicroTool):
    """Warpgroup matrix multiplies are serialised."""

    code = "WL306"
    slug = "wgmma-serialized"
    title = "Warpgroup matrix multiplies are serialised"
    avoid = (
        "Do not touch an accumulator between wgmma and its wait; do not call functions that are not inlined "
        "in between."
    )
    tiers = ("binary",)
    relevant = ("compute", "latency", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel that ptxas' warning names."""
        binary = self.view.evidence.binary
        names = {k.mangled: k for k in self.view.evidence.compiled}
        if binary is None:
            return
        for message in binary.messages:
            if not is_serialised(message) or message.function not in names:
                continue
            sass = self.view.sass_of(names[message.function])
            line = sass.hottest_line(sass.where(lambda x: x.opcode.endswith("GMMA")))
            call = "function call" in message.text
            yield self.finding(
                line,
                confidence="high",
                message=f"ptxas serialised the wgmma instructions of {self.view.kernel.name}: {_reason(message)}.",
                guidance=(
                    "Make every function between the first wgmma and its wait inline (CUTLASS: compile with -DNDEBUG)."
                    if call
                    else "Touch the accumulator registers only after wgmma.wait_group, and put wgmma.fence before "
                    "the first wgmma that uses registers written by other instructions."
                ),
                evidence=(self.view.observe("ptxas " + (message.code or "warning"), message.text),),
                # Each product waits for the one before: with two in flight the pipe's idle half comes back.
                gain=Gain(1.5, 1.0, 2.0),
                index_query="wgmma warpgroup mainloop",
            )
            return

    def verify(self, finding: Finding) -> Finding | None:
        """Cycles in which the tensor pipe stood still: what products in flight could win back."""
        counters = self.view.evidence.counters
        pipe = None if counters is None else busiest(counters, ("tensor",))
        if counters is None or pipe is None:
            return finding
        idle = counters.seen("tensor pipe idle", 1.0 - min(pipe[1], 1.0), CONFIRMED)
        return cap_gain(counters, finding, idle, ("tensor", *DRAM, *L1, *L2))


def is_serialised(message: CompilerMessage) -> bool:
    """Whether a compiler message is the serialisation warning."""
    return message.code in {"C7510", "C7511"} or "wgmma.mma_async instructions are serialized" in message.text


def _reason(message: CompilerMessage) -> str:
    _, _, reason = message.text.partition("due to ")
    return re.split(r" in (?:the )?function", reason)[0].strip().rstrip(".") or "it gives no reason"
