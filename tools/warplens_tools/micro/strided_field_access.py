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
together; with SASS, an expected gain of 1.1. A constant stride counts as a record up to 128 bytes. Counters
that show no more sectors on the line than needed withdraw it.

**References.** CUDA C++ Best Practices Guide, "Strided Accesses"; Nsight Compute's rule on uncoalesced
global accesses.
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.finding import Finding
from warplens_tools.memory.coalescing import WarpAccess
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.counted import counted_finding, wasteful_read
from warplens_tools.micro.common.measured import judge_by_sectors
from warplens_tools.micro.common.overfetch import sector_finding, uncoalesced
from warplens_tools.micro.common.scattered import scattered_finding
from warplens_tools.view import KernelView

_HIDDEN = (
    "Store the fields this kernel uses in arrays of their own (a structure of arrays), so "
    "that neighbouring lanes read neighbouring elements."
)


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on the access that wastes most."""
    found = uncoalesced(view, "field")
    if not found:
        hidden = scattered_finding(view, TOOL, "field", _HIDDEN)
        yield from (hidden,) if hidden is not None else ()
        return
    worst = found[0]
    text, name = view.text.slice(worst.access.span), worst.access.name
    by_hand = worst.stride is not None and abs(worst.stride) != worst.element
    finding = sector_finding(
        view,
        TOOL,
        found,
        message=(
            f"{text} uses {_used(worst)} of every {abs(worst.stride or worst.element)} bytes of {name}: "
            f"{worst.sectors} sectors a request where {worst.least} would do."
        ),
        guidance=(
            f"Store what this kernel uses of {name} in an array of its own, one plane per channel."
            if by_hand
            else f"Split {name} into a structure of arrays: the fields this kernel uses in arrays of their own, so "
            "that neighbouring lanes read neighbouring elements."
        ),
    )
    if finding is not None:
        yield finding


def _used(warp: WarpAccess) -> int:
    return warp.used if warp.used < warp.element else warp.element


def spot(view: KernelView) -> Iterator[Finding]:
    """Loads that were counted to take a part of each sector, as one field of a struct in an array does."""
    found = wasteful_read(view, "field")
    if found is None:
        return
    yield counted_finding(
        view,
        TOOL,
        found,
        message=(
            f"The lanes of this line read {found.ratio:.1f} times the sectors they need, one part of each: fields of "
            "a struct lie between."
        ),
        guidance=(
            "Keep each field in an array of its own (structure of arrays), or load the whole struct at once as a "
            "vector where all of it is used."
        ),
    )


TOOL = MicroTool(
    code="WL103",
    slug="strided-field-access",
    title="Only a part of each record is used",
    tiers=("source", "binary"),
    relevant=("memory", "latency"),
    check=check,
    spot=spot,
    judge=judge_by_sectors,
)
