# SPDX-License-Identifier: Apache-2.0
"""uncoalesced-in-call

**What.** A device function that the kernel calls reads or writes global memory so that neighbouring lanes of a warp are
far apart.

**Why it costs.** As in the kernel's own text: every sector that a lane touches alone is moved whole, 32 bytes for the
few that are wanted. In a function that is handed a pointer and an index nothing shows how the lanes lie; the call does.

**Wrong**

```cuda
__device__ float at(const float *m, int row, int column, int columns) { return m[row * columns + column]; }
...
sum += at(m, threadIdx.x, k, columns);                  // lanes are a row apart
```

**Right**

```cuda
sum += at(m, k, threadIdx.x, columns);                  // lanes along the row; or a tile in shared memory
```

**Evidence.** Calls of device functions of the file, the pointers and integers that they are handed, and the indices of
the functions' accesses worked out of these.

**Threshold.** Twice the sectors that the bytes need. It is information; where an access of the kernel's own text, or
its SASS, has the same said of the line, nothing is added.

**References.** CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.called_accesses import CalledAccess, called_accesses
from warplens_tools.finding import Finding, RelatedSpan
from warplens_tools.machine.coalescing import WarpAccess, accesses_in_calls
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.sectors import cause_of, lane_words
from warplens_tools.micro.per_thread_chunks import PerThreadChunks
from warplens_tools.micro.strided_field_access import StridedFieldAccess
from warplens_tools.micro.uncoalesced_global_read import UncoalescedGlobalRead
from warplens_tools.micro.uncoalesced_global_write import UncoalescedGlobalWrite

_SAME = (UncoalescedGlobalRead, UncoalescedGlobalWrite, PerThreadChunks, StridedFieldAccess)
_WORDS = {"read": "read", "write": "write", "chunk": "walk of each lane", "field": "access by fields"}


class UncoalescedInCall(MicroTool):
    """A device function's accesses are uncoalesced as the kernel calls it."""

    code = "WL122"
    slug = "uncoalesced-in-call"
    title = "Uncoalesced accesses in a device function"
    avoid = "Do not change the function for callers whose lanes lie well."
    rule_words = "sector|coalesc|access pattern"
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the call whose access wastes most, deep loops first."""
        found = {c.access.span: c for c in called_accesses(self.view.tree, self.view.kernel, self.view.dim3)}
        wide = [w for w in accesses_in_calls(self.view, [c.access for c in found.values()]) if cause_of(w)]
        if not wide:
            return
        worst = max(wide, key=lambda w: (len(w.access.loops), w.overfetch))
        at = found[worst.access.span]
        lines = {f.span.line for tool in _SAME for f in tool(self.view).check()}
        if not lines & {at.call.line, at.access.span.line}:
            yield self._told(worst, at)

    def _told(self, worst: WarpAccess, at: CalledAccess) -> Finding:
        cause = cause_of(worst) or "read"
        return self.finding(
            at.call,
            severity="information",
            confidence="low",
            message=(
                f"Uncoalesced {_WORDS[cause]} in {at.function}, called here: {self.view.said(at.access.span)}, "
                f"{worst.sectors} sectors per request where {worst.ideal_sectors} would suffice: "
                f"{lane_words(worst)} in {at.access.name}."
            ),
            guidance=(
                f"Let neighbouring lanes go along the contiguous direction of {at.access.name} (swap what the call "
                "hands over, or the layout), or have the block load a tile in rows and exchange it through shared "
                "memory."
            ),
            evidence=(
                self.view.observe("sectors per request", float(worst.sectors), "", float(worst.ideal_sectors),
                                  tier="source"),
            ),
            related=(RelatedSpan(at.access.span, "the access"),),
        )  # fmt: skip
