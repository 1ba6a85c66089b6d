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
library's. A constant stride counts as a record up to 128 bytes. Counters that show no more sectors on the line than
needed withdraw it.

**References.** CUDA C++ Best Practices Guide, "Strided Accesses"; Nsight Compute's rule on uncoalesced
global accesses.
"""

from __future__ import annotations

from warplens_tools.machine.coalescing import WarpAccess
from warplens_tools.machine.counted import Wasteful
from warplens_tools.micro.common.coalescing import CoalescingTool


class StridedFieldAccess(CoalescingTool):
    """Accesses of one field of the records that lanes walk over."""

    code = "WL103"
    slug = "strided-field-access"
    title = "Only a part of each record is used"
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

    def words_counted(self, found: Wasteful) -> str:
        """The message."""
        return (
            f"Strided access: the loads of this line take {found.ratio:.1f} times the sectors that hold their data, "
            "as one field of each struct."
        )
