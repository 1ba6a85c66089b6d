# SPDX-License-Identifier: Apache-2.0
"""strided-field-access

**What.** The elements of an array are records, and the kernel uses only a part of each: one field of an
array of structs, or one of every four interleaved channels.

**Why it costs.** Neighbouring lanes are a whole record apart, so each request moves all the sectors that
the records lie in, and the fields that nobody asked for come along from device memory.

**Wrong**

```cuda
struct Particle { float x, y, z, vx, vy, vz, mass, charge; };
total += particles[i].mass;                   // 4 of the 32 bytes that are moved
```

**Right**

```cuda
total += mass[i];                             // a structure of arrays: one array per field
```

**Evidence.** The struct's layout (or the constant stride), the fields that the kernel uses of it, and the
sectors of a request from the index of every lane.

**Threshold.** The sectors come to twice what the used bytes fill, counting all accesses to the same records
together, those of a loop further in too: what one leaves of a sector the next finds in the L1. With SASS, an expected
gain of 1.1; nothing is said where an access's address is not known that may be another field's, or the record is a
library's. A constant stride counts as a record up to 128 bytes. Records of more than 32 bytes that
are used whole are information, where eight accesses of a word go through them and are most of the kernel's. Counters
that show no more sectors on the line than needed withdraw it.

**References.** CUDA C++ Best Practices Guide, "Strided Accesses"; Nsight Compute's rule on uncoalesced
global accesses.
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.arch.gpu import SECTOR_BYTES
from warplens_tools.finding import Finding
from warplens_tools.machine.coalescing import WarpAccess
from warplens_tools.machine.counted import Wasteful
from warplens_tools.micro.common.coalescing import CoalescingTool
from warplens_tools.micro.common.sectors import RECORD_BYTES

#: Accesses of a word each from which records that are used whole are worth a word, and bytes up to which one is narrow.
MANY, _NARROW = 8, 8


class StridedFieldAccess(CoalescingTool):
    """Accesses of one field of the records that lanes walk over."""

    code = "WL103"
    slug = "strided-field-access"
    title = "Only a part of each record is used"
    avoid = "Do not change the layout of data that the host or another kernel reads."
    rule_words = "uncoalesced|access pattern.*global|stride"
    cause = "field"
    guidance_hidden = (
        "Store the fields this kernel uses in arrays of their own (a structure of arrays), so "
        "that neighbouring lanes read neighbouring elements."
    )
    guidance_counted = (
        "Keep each field in an array of its own (structure of arrays), or load the whole struct at once as a "
        "vector where all of it is used."
    )

    def words(self, worst: WarpAccess) -> tuple[str, str]:
        """Message and guidance."""
        text, name = self.view.said(worst.access.span), worst.access.name
        by_hand = worst.stride is not None and abs(worst.stride) != worst.element
        return (
            f"Strided access: {text} uses {min(worst.used, worst.element)} of every "
            f"{abs(worst.stride or worst.element)} bytes of {name}: {worst.sectors} sectors per request, "
            f"{worst.ideal_sectors} would suffice.",
            f"Store what this kernel uses of {name} in an array of its own, one plane per channel."
            if by_hand
            else f"Split {name} into a structure of arrays: the fields this kernel uses in arrays of their own, so "
            "that neighbouring lanes read neighbouring elements.",
        )

    def check_hidden(self) -> Iterator[Finding]:
        """What only SASS shows; else records that are used whole, word by word."""
        yield from list(super().check_hidden()) or self._whole()

    def _whole(self) -> Iterator[Finding]:
        """Records longer than a sector that most of the accesses go through, each for a word: the caches put the
        sectors to use that each request fetches, at a request for each word."""
        sass = self.sass
        found = [
            p
            for p in (sass.patterns if sass else ())
            if p.space == "global"
            and p.sectors is not None
            and p.width <= _NARROW
            and SECTOR_BYTES < abs(p.stride or 0) <= RECORD_BYTES
        ]
        own, every = [p.index for p in found], sass.where(lambda x: x.opcode in ("LDG", "STG"))
        if (
            len(own) < MANY
            or 2.0 * sass.weigh(own) < sass.weigh(every)
            or self.view.bottleneck.bound == "compute"
        ):
            return
        place = self.hottest_place(own)
        apart = " and ".join(str(n) for n in sorted({abs(p.stride or 0) for p in found})[:3])
        most = max(p.sectors[0] for p in found if p.sectors is not None)
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="low",
            message=(
                f"Array of structures: {len(own)} accesses of {self.view.kernel.name} have neighbouring lanes {apart} "
                f"bytes apart, for a word each: up to {most} sectors per request, which only the caches put to use as "
                "the next words are asked for."
            ),
            guidance=(
                "Keep the fields in arrays of their own (a structure of arrays), so that a request takes whole "
                "sectors; or let the block bring its records through shared memory by neighbouring words."
            ),
            evidence=(
                self.view.observe("accesses of a word in records", float(len(own)), "", float(MANY)),
                self.view.observe("sectors per request", float(most)),
            ),
        )

    def words_counted(self, found: Wasteful) -> str:
        """The message."""
        return (
            f"Strided access: the loads of this line take {found.ratio:.1f} times the sectors that hold their data, "
            "as one field of each struct."
        )
