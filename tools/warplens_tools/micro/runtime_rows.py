# SPDX-License-Identifier: Apache-2.0
"""runtime-rows

**What.** Neighbouring lanes are a row or a record apart whose length only the run knows, and each goes through the
elements of its own: `state[i * variables + v]`, `feature[b][y][x][c]` with a thread for each x and a loop over c.

**Why it costs.** A request takes a sector of 32 bytes for each lane, of which it uses one element; what the L1 does not
keep until the lane comes to the next element is moved again. Stores and atomics, which the L1 does not gather, take
32 sectors each time.

**Wrong**

```cuda
float *own = state + variables * i;                        // lanes are `variables` floats apart
own[0] *= decay; own[1] += own[2] * own[0];
```

**Right**

```cuda
state[0 * n + i] *= decay;                                 // one plane for each variable: lanes side by side
// or, for long rows, a warp for each row, with the lanes along it
```

**Evidence.** SASS: addresses that grow by a parameter from lane to lane, at three or more constant places from there;
in the source, accesses by several subscripts (a tensor's accessor) whose last one is the same for all lanes while an
earlier one differs.

**Threshold.** A fifth of the kernel's global accesses, as often as each runs, and nothing said by the other checks on
uncoalesced accesses. It is information: the length may be one element.

**References.** CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory", "Strided Accesses".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.facts.lane_names import lane_names, mentions_lanes
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.per_thread_chunks import PerThreadChunks
from warplens_tools.micro.strided_field_access import StridedFieldAccess
from warplens_tools.micro.uncoalesced_global_read import UncoalescedGlobalRead
from warplens_tools.micro.uncoalesced_global_write import UncoalescedGlobalWrite
from warplens_tools.sass.addresses import constant_of, without_constant

#: Constant places of one record from which it is one, and the share of the global accesses from which they are told.
FIELDS, OFTEN = 3, 0.2
#: An address that grows by a parameter from lane to lane.
_BY_PARAMETER = re.compile(r"\b\d+\*lane\*c\[")
_GLOBAL = ("LDG", "STG", "RED", "ATOMG", "LD", "ST")
_OTHERS = (UncoalescedGlobalRead, UncoalescedGlobalWrite, StridedFieldAccess, PerThreadChunks)


class RuntimeRows(MicroTool):
    """Lanes are a row of run-time length apart."""

    code = "WL128"
    slug = "runtime-rows"
    title = "Neighbouring lanes are a row or record of run-time length apart"
    avoid = "Do not change the layout of data that the host or another kernel reads."
    rule_words = "uncoalesced|access pattern.*global|stride"
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, of records that SASS shows, else of a tensor's rows."""
        records = self._records() if self.sass else []
        rows = [] if records else self._rows()
        if not (records or rows) or any(tool.told(self.view) for tool in _OTHERS):
            return
        yield self._of_records(records) if records else self._of_rows(rows)

    def _records(self) -> list[int]:
        """The accesses to records of a run-time length, where they are a part of the kernel's that counts."""
        groups: dict[str, dict[int, list[int]]] = {}
        for p in self.sass.patterns:
            if p.space == "global" and p.stride is None and _BY_PARAMETER.search(p.form):
                places = groups.setdefault(without_constant(p.form), {})
                places.setdefault(constant_of(p.form), []).append(p.index)
        found = [
            i for places in groups.values() if len(places) >= FIELDS for own in places.values() for i in own
        ]
        return found if self._are_often(found) else []

    def _are_often(self, found: Sequence[int]) -> bool:
        every = self.sass.where(lambda x: x.opcode in _GLOBAL)
        return bool(found) and self.sass.weigh(found) >= OFTEN * self.sass.weigh(every)

    def _of_records(self, found: Sequence[int]) -> Finding:
        place = self.hottest_place(found)
        return self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="low",
            message=(
                "Array of structures of run-time size: neighbouring lanes are a record apart whose length a parameter "
                f"tells, and {len(found)} loads and stores take its elements one by one, up to "
                f"{self.gpu.limits.warp_size} sectors per request each."
            ),
            guidance=(
                "Keep one plane for each variable (structure of arrays: element v of item i at v * n + i), so that the "
                "lanes of a request are neighbours; or stage the records of a block through shared memory in rows."
            ),
            evidence=(self.view.observe("accesses to records of a run-time length", float(len(found))),),
        )

    def _rows(self) -> list[ArrayAccess]:
        """Accesses by several subscripts whose lanes are rows apart, the deepest first."""
        varying = lane_names(self.view.body)
        found = [a for a in self.view.global_accesses if _is_by_row(a, varying)]
        if self.sass:
            lines = {a.span.line for a in found}
            own = self.sass.where(lambda x: x.opcode in _GLOBAL)
            if not self._are_often([i for i in own if self.sass.lines[i] in lines]):
                return []
        return sorted(found, key=lambda a: (-len(a.loops), not a.writes, a.span))

    def _of_rows(self, found: Sequence[ArrayAccess]) -> Finding:
        worst = found[0]
        text, name = self.view.said(worst.span), worst.name
        return self.finding(
            worst.span,
            severity="information",
            confidence="low",
            message=(
                f"Uncoalesced {'atomic update' if worst.atomic else 'write' if worst.writes else 'read'} of {text}: "
                f"the last subscript, along which {name} is contiguous, is the same for all lanes of a warp, which are "
                f"whole rows apart: up to {self.gpu.limits.warp_size} sectors per request."
            ),
            guidance=(
                f"Let the lanes run along the last axis of {name} (a warp for each of the others, parts combined by "
                "shuffles), or pass the tensor with the axis of the lanes last."
            ),
            evidence=(
                self.view.observe(
                    "accesses by rows",
                    ", ".join(dict.fromkeys(self.view.said(a.span) for a in found[:6])),
                    tier="source",
                ),
            ),
        )


def _is_by_row(access: ArrayAccess, varying: frozenset[str]) -> bool:
    """Whether an earlier subscript differs between lanes and the last one does not, in a loop that goes along it."""
    *before, last = access.indices or ("",)
    if access.index is not None or not before or access.few or access.one or not access.loops:
        return False
    if mentions_lanes(last, varying) or "[" in last:
        return False
    walked = any(x.variable and re.search(rf"\b{re.escape(x.variable)}\b", last) for x in access.loops)
    return walked and any(mentions_lanes(index, varying) for index in before)
