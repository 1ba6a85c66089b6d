# SPDX-License-Identifier: Apache-2.0
"""scalar-access

**What.** Each thread moves one or two bytes at a time, and even a full SM has too few bytes on their way to
keep device memory busy.

**Why it costs.** By Little's law the bytes in flight must cover latency times bandwidth, about 10 KB per SM.
2048 resident threads that each wait for one byte have 2 KB. Wider loads (16 bytes a thread) or several
independent loads put more in flight with the same threads, and take fewer instructions per byte.

**Wrong**

```cuda
out[i] = 255 - in[i];                          // uint8_t: 32 bytes a warp
```

**Right**

```cuda
uint4 v = reinterpret_cast<const uint4 *>(in)[i];
reinterpret_cast<uint4 *>(out)[i] = make_uint4(~v.x, ~v.y, ~v.z, ~v.w);
```

**Evidence.** From SASS, the bytes of global loads that a thread has on their way between loop iterations, at
the occupancy that registers, shared memory and the block allow; whether the lanes are neighbours. Counters tell
how busy L1 was, what warps stalled on, and the share of device memory's roof: they confirm the finding, bound
its gain, or withdraw it.

**Threshold.** Half of what Little's law asks, with the wait of a load among many and this card's roof; a
kernel with enough bytes in flight stays silent, however narrow its loads.

**References.** V. Volkov, "Better Performance at Lower Occupancy", GTC 2010; J. Luitjens, "CUDA Pro Tip: Increase
Performance with Vectorized Memory Access", NVIDIA Technical Blog; GPUscout's check of vector loads.
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cost.gain import make_gain
from warplens_tools.cost.geometry import geometry
from warplens_tools.cost.parallelism import LOW_OCCUPANCY, loads_in_flight
from warplens_tools.cost.waiting import waiting_floor
from warplens_tools.evidence import CompiledKernel, Observation
from warplens_tools.finding import Finding
from warplens_tools.launches import theoretical_occupancy
from warplens_tools.memory.coalescing import WarpAccess, warp_accesses
from warplens_tools.memory.traffic import dram_bytes_per_clock
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.overfetch import global_indices_on, is_compiled
from warplens_tools.micro.common.room import ARITHMETIC, DRAM, GLOBAL_STALLS, L1, L2, judge_by_room
from warplens_tools.roofline.classify import demand_of
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.pipes import access_bytes, is_load
from warplens_tools.view import KernelView

#: Share of the bytes that Little's law asks for, below which it is said; latency is known to a factor.
SHORT = 0.5
#: Expected gain below which a finding would only distract.
WORTH = 1.1
_NARROW, _WIDE = 4, 16


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on the narrowest coalesced load."""
    compiled = view.evidence.worst
    binary = view.evidence.binary
    if compiled is None or binary is None or not compiled.instructions:
        return
    found = theoretical_occupancy(view.kernel, view.model, compiled, view.gpu)
    shape = geometry(view)
    if shape is not None and shape.blocks < view.gpu.multiprocessors:
        return
    # Where a block's warps meet they wait for each other too, which wider loads do not change.
    meets = any(x.opcode == "BAR" for x in compiled.instructions)
    if found is None or found.occupancy <= LOW_OCCUPANCY or meets:
        return
    per_thread = loads_in_flight(compiled, analyse(compiled.instructions))
    in_flight = float(per_thread * found.warps * view.gpu.limits.warp_size)
    needed = view.gpu.costs.memory_wait * dram_bytes_per_clock(view.gpu)
    narrow = _narrowest(view, compiled)
    if not in_flight or in_flight >= SHORT * needed or narrow is None:
        return
    access, most = narrow.access, _gain(view, compiled, _WIDE / max(narrow.element, min(per_thread, _WIDE)))
    if most < WORTH:
        return
    yield TOOL.finding(
        view,
        span=access.span,
        severity="warning",
        confidence="medium",
        message=(
            f"{view.text.slice(access.span)} loads {narrow.element} bytes a thread: {in_flight / 1024:.1f} KB in "
            f"flight per SM where device memory needs {needed / 1024:.1f} KB."
        ),
        guidance=(
            f"Let each thread handle 16 bytes of {access.name} at once (a uint4 or float4 load and store), or "
            "several independent elements a block's width apart."
        ),
        evidence=(
            Observation(
                "binary", binary.origin, "bytes in flight per SM", in_flight, "byte", round(SHORT * needed),
                "half of latency times this SM's share of the DRAM roof",
            ),
            Observation("binary", binary.origin, "theoretical occupancy", round(found.occupancy, 3)),
        ),
        gain=make_gain(most, 1.0, max(most, needed / in_flight)),
        index_query="vectorized copy alignment 128 bit",
    )  # fmt: skip


def _narrowest(view: KernelView, compiled: CompiledKernel) -> WarpAccess | None:
    """A coalesced load that became instructions of at most four bytes a lane."""
    found = [
        w
        for w in warp_accesses(view)
        if w.access.reads and w.sectors <= w.least + 1 and w.element <= _NARROW and is_compiled(view, w)
        and w.stride == w.element and _is_narrow(view, compiled, w)
    ]  # fmt: skip
    return min(found, key=lambda w: w.element, default=None)


def _is_narrow(view: KernelView, compiled: CompiledKernel, warp: WarpAccess) -> bool:
    loads = [compiled.instructions[i] for i in global_indices_on(view, compiled, warp.access.span.line)]
    return any(is_load(x) and access_bytes(x) <= _NARROW for x in loads)


def _gain(view: KernelView, compiled: CompiledKernel, wider: float) -> float:
    """Bounds as they are over those of threads that handle `wider` times as much: fewer warps, each as long."""
    demand = demand_of(view, compiled)
    floor = max(waiting_floor(view, compiled).values(), default=0.0)
    busy, moved = max(demand.pipes.values(), default=0.0), max(demand.dram_lower, demand.pipes.get("l2", 0.0))
    # Where a unit is busier than warps wait, wider loads would not show.
    return max(floor, moved) / max(moved, floor / wider) if floor > busy else 1.0


TOOL = MicroTool(
    code="WL106",
    slug="scalar-access",
    title="Loads are too narrow to keep device memory busy",
    tiers=("binary",),
    relevant=("memory", "latency"),
    check=check,
    judge=judge_by_room(own=L1, stalls=GLOBAL_STALLS, kept=(*DRAM, *L2, *ARITHMETIC)),
)
