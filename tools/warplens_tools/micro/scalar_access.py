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

**Threshold.** Half of what Little's law asks, all of it for elements of one or two bytes, with the wait of a load
among many and this card's roof; a kernel with enough bytes in flight stays silent, however narrow its loads.

**References.** V. Volkov, "Better Performance at Lower Occupancy", GTC 2010; J. Luitjens, "CUDA Pro Tip: Increase
Performance with Vectorized Memory Access", NVIDIA Technical Blog; GPUscout's check of vector loads.
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.finding import Finding, Gain
from warplens_tools.machine.coalescing import WarpAccess
from warplens_tools.machine.gain import removal_gain
from warplens_tools.machine.waiting import LOW_OCCUPANCY
from warplens_tools.micro.common.judges import ARITHMETIC, DRAM, GLOBAL_STALLS, L1, L2, judge_by_room
from warplens_tools.micro.common.sectors import SectorTool
from warplens_tools.sass.pipes import access_bytes, is_load

#: Share of the bytes that Little's law asks for, below which it is said; latency is known to a factor.
SHORT = 0.5
#: The same where a lane takes one or two bytes: its block's life around the load has as few bytes on their way.
SHORT_OF_SMALL = 1.0
_SMALL = 2
_NARROW, _WIDE = 4, 16
#: Bytes of structs that one vector access takes.
_RECORDS = (8, 16)


class ScalarAccess(SectorTool):
    """Loads are too narrow to keep device memory busy."""

    code = "WL106"
    slug = "scalar-access"
    title = "Loads are too narrow to keep device memory busy"
    rule_words = "vector|wider|bytes? per thread"
    tiers = ("binary",)
    judges = (judge_by_room(own=L1, stalls=GLOBAL_STALLS, kept=(*DRAM, *L2, *ARITHMETIC)),)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the narrowest coalesced load."""
        if not self.sass:
            return
        split = self._split_record()
        if split is not None:
            yield split
            return
        found = self.view.occupancy
        shape = self.view.shape
        if shape is not None and shape.blocks < self.gpu.multiprocessors:
            return
        # Where a block's warps meet they wait for each other too, which wider loads do not change.
        meets = any(x.opcode == "BAR" for x in self.sass.instructions)
        if found is None or found.occupancy <= LOW_OCCUPANCY or meets:
            return
        per_thread = self.sass.loaded_bytes
        in_flight = float(per_thread * found.warps * self.gpu.limits.warp_size)
        needed = self.gpu.costs.memory_wait * self.gpu.dram_bytes_per_clock
        narrow = self._narrowest()
        if not in_flight or narrow is None or in_flight >= _short(narrow) * needed:
            return
        access, most = narrow.access, self._gain(_WIDE / max(narrow.element, min(per_thread, _WIDE)))
        if most < self.worth:
            return
        yield self.finding(access.span,
            confidence="medium",
            message=(
                f"{self.view.said(access.span)} loads {narrow.element} bytes a thread: {in_flight / 1024:.1f} KB in "
                f"flight per SM where device memory needs {needed / 1024:.1f} KB."
            ),
            guidance=(
                f"Let each thread handle 16 bytes of {access.name} at once (a uint4 or float4 load and store), or "
                "several independent elements a block's width apart."
            ),
            evidence=(
                self.view.observe("bytes in flight per SM", in_flight, "byte", round(_short(narrow) * needed),
                    f"{_short(narrow):.0%} of latency times this SM's share of the DRAM roof",
                ),
                self.view.observe("theoretical occupancy", round(found.occupancy, 3)),
            ),
            gain=Gain.of(most, max(most, needed / in_flight)),
            index_query="vectorized copy alignment 128 bit",
        )  # fmt: skip

    def _split_record(self) -> Finding | None:
        """A struct of 8 or 16 bytes, all of them used, that is loaded or stored a member at a time."""
        for warp in self.view.warp_accesses:
            here = [i for n in warp.lines_used for i in self.sass.global_on(n)]
            alike = [i for i in here if is_load(self.sass.instructions[i]) == warp.access.reads]
            parts = [i for i in alike if access_bytes(self.sass.instructions[i]) < warp.element]
            whole = warp.stride == warp.element == warp.used and warp.element in _RECORDS
            if not whole or len(parts) * _NARROW < warp.element or len(parts) < len(alike):
                continue
            width = access_bytes(self.sass.instructions[parts[0]])
            each = warp.element // max(width, 1)
            spared = [i for n, i in enumerate(parts) if n % each]
            return self._on_record(
                warp, width, each, removal_gain(self.sass, spared, self.view.traffic.cycles())
            )
        return None

    def _on_record(self, warp: WarpAccess, width: int, each: int, gain: Gain | None) -> Finding:
        text, name = self.view.said(warp.access.span), warp.access.name
        doing, vector = (
            "loads" if warp.access.reads else "stores",
            "uint4" if warp.element == _WIDE else "uint2",
        )
        return self.finding(
            warp.access.span,
            severity="information",
            confidence="medium",
            message=(
                f"Narrow access: {text} is {each} {doing} of {width} bytes where one of {warp.element} bytes would do."
            ),
            guidance=(
                f"Load and store {name} as {vector} (its buffers aligned to that) and unpack it in registers."
            ),
            evidence=(
                self.view.observe("bytes per access", float(width), "byte", float(warp.element),
                    f"all bytes of an element of {name} are used"),
            ),
            gain=gain,
            index_query="vectorized copy alignment 128 bit",
        )  # fmt: skip

    def _narrowest(self) -> WarpAccess | None:
        """A coalesced load that became instructions of at most four bytes a lane."""
        found = [
            w
            for w in self.view.warp_accesses
            if w.access.reads and w.sectors <= w.ideal_sectors + 1 and w.element <= _NARROW and self.is_compiled(w)
            and w.stride == w.element and self._is_narrow(w)
        ]  # fmt: skip
        return min(found, key=lambda w: w.element, default=None)

    def _is_narrow(self, warp: WarpAccess) -> bool:
        loads = [self.sass.instructions[i] for i in self.sass.global_on(warp.access.span.line)]
        return any(is_load(x) and access_bytes(x) <= _NARROW for x in loads)

    def _gain(self, wider: float) -> float:
        """Bounds as they are over those of threads that handle `wider` times as much: fewer warps, each as long."""
        demand = self.view.demand
        floor = max(self.view.waiting.floor.values(), default=0.0)
        busy, moved = (
            max(demand.pipes.values(), default=0.0),
            max(demand.dram_lower, demand.pipes.get("l2", 0.0)),
        )
        # Where a unit is busier than warps wait, wider loads would not show.
        return max(floor, moved) / max(moved, floor / wider) if floor > busy else 1.0


def _short(narrow: WarpAccess) -> float:
    """Share of what Little's law asks, below which a load is too narrow."""
    return SHORT_OF_SMALL if narrow.element <= _SMALL else SHORT
