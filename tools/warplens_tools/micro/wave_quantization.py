"""wave-quantization

**What.** The blocks do not divide evenly over the SMs: the last wave is nearly empty, and the kernel lasts as
long as if it were full.

**Why it costs.** With 1.1 waves of equal blocks the kernel takes the time of two, and most SMs idle in
the second.

**Wrong**

```cuda
filter<<<150, 512>>>(out, in, n);        // 132 SMs: 18 of them work twice as long
```

**Right**

```cuda
filter<<<264, 256>>>(out, in, n);        // two smaller blocks for every SM
```

**Evidence.** Blocks of the launch, measured or constant; the blocks that fit on the GPU at once, from ptxas'
registers and shared memory. A kernel that keeps an SM's pipes busy is judged by blocks per SM, as its resident
blocks share the pipes. Counters tell for how long the SMs had work: what they lacked on average is the gain,
and even SMs with full warp slots withdraw the finding.

**Threshold.** A fifth of the time or more, of a kernel that is not bound by memory (a last wave with fewer
SMs still gets the whole memory). Below one wave there is no tail.

**References.** CUDA C++ Best Practices Guide, "Thread and Block Heuristics"; NVIDIA, "Deep Learning Performance:
Matrix Multiplication Background", section "Wave Quantization".
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from warplens_tools.cost.gain import make_gain
from warplens_tools.cost.geometry import geometry, runs_long, shape_observations
from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding
from warplens_tools.launches import theoretical_occupancy
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.serial import judge_waves
from warplens_tools.view import KernelView

#: Time of the launch over its time without a tail from which it is reported.
REPORTED = 1.2


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on its largest launch."""
    shape, compiled, binary = geometry(view), view.evidence.worst, view.evidence.binary
    if shape is None or compiled is None or binary is None or not runs_long(view):
        return
    found = theoretical_occupancy(view.kernel, view.model, compiled, view.gpu)
    # A tail leaves SMs idle: measured, such a kernel waits; by its code it still is what the full SMs are.
    bounds = {vote.bound for vote in (view.bottleneck, view.bottleneck.analytic) if vote is not None}
    if found is None or not found.blocks or bounds <= {"memory", "unknown"}:
        return
    sms = view.gpu.multiprocessors
    at_once = sms if "compute" in bounds else sms * found.blocks
    waves = shape.blocks / at_once
    ratio = math.ceil(waves) / waves
    if waves <= 1.0 or ratio < REPORTED:
        return
    span = shape.site.grid_span if shape.site is not None else view.kernel.name_span
    rest = shape.blocks % at_once
    yield TOOL.finding(
        view,
        span=span,
        severity="warning",
        confidence="medium",
        message=(
            f"{shape.blocks} blocks of {view.kernel.name} are {waves:.2f} rounds of the {at_once} that "
            f"{view.gpu.name} works on at once: the last round has {rest} and takes as long as a full one."
        ),
        guidance=(
            f"Launch a multiple of {at_once} blocks and let each loop over its share (grid-stride), or cut the "
            "work into more, smaller blocks so that the last round weighs less."
        ),
        evidence=(
            *shape_observations(view, shape)[:1],
            Observation("binary", binary.origin, "resident blocks per SM", float(found.blocks)),
            Observation(
                shape.tier, shape.origin, "waves", round(waves, 3), "", REPORTED, "time over even time"
            ),
        ),
        gain=make_gain(ratio, 1.0, ratio),
    )


TOOL = MicroTool(
    code="WL205",
    slug="wave-quantization",
    title="The last wave of blocks is nearly empty",
    tiers=("binary",),
    relevant=("compute", "latency"),
    check=check,
    judge=judge_waves,
)
