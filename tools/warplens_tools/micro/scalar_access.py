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
among many and this card's roof. Where all that a launch moves may lie in the L2, which answers sooner, the expected
gain is the mean of both. Where no launch tells the block, it is information, of a kernel that device memory bounds, at
the occupancy of blocks of 256. Information besides, where enough bytes are in flight: elements of one and two bytes
taken singly, or stored so by a loop without loads or by half of the kernel's stores; neighbouring elements that a
thread moves by an access each, a fifth of all accesses at least, where lanes are a multiple of the vector apart; bytes
of shared memory where the load/store pipe is nearly the busiest; and a thread without loops that takes 10 instructions
and more for each access of the 16 bytes at most that it moves.

**References.** V. Volkov, "Better Performance at Lower Occupancy", GTC 2010; J. Luitjens, "CUDA Pro Tip: Increase
Performance with Vectorized Memory Access", NVIDIA Technical Blog; GPUscout's check of vector loads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from warplens_tools.arch.occupancy import Occupancy, occupancy
from warplens_tools.finding import Finding, Gain
from warplens_tools.machine.coalescing import WarpAccess
from warplens_tools.machine.waiting import LOW_OCCUPANCY
from warplens_tools.micro.common.judges import ARITHMETIC, DRAM, GLOBAL_STALLS, L1, L2, judge_by_room
from warplens_tools.micro.common.narrow import NARROW, SMALL, WIDE, Narrow, NarrowTool
from warplens_tools.sass.pipes import access_bytes, is_load
from warplens_tools.text import Span

#: Share of the bytes that Little's law asks for, below which it is said; latency is known to a factor.
SHORT = 0.5
#: The same where a lane takes one or two bytes: its block's life around the load has as few bytes on their way.
SHORT_OF_SMALL = 1.0
#: Bytes of element types that kernels are instantiated for, by the last part of their names.
_SMALL_TYPES = {
    "half": 2, "Half": 2, "nv_bfloat16": 2, "BFloat16": 2, "short": 2, "unsigned short": 2,
    "char": 1, "signed char": 1, "unsigned char": 1, "nv_fp8_e4m3": 1, "nv_fp8_e5m2": 1,
}  # fmt: skip
#: Instantiations that are looked at besides.
_INSTANCES = 3
#: Threads of a block that suits a kernel without barriers.
_SUITABLE = 256


class ScalarAccess(NarrowTool):
    """Loads are too narrow to keep device memory busy."""

    code = "WL106"
    slug = "scalar-access"
    title = "Loads are too narrow to keep device memory busy"
    avoid = (
        "Do not read four elements at once without the rest for sizes that do not divide by four, nor from an"
        " address that is not aligned to 16 bytes."
    )
    rule_words = "vector|wider|bytes? per thread"
    tiers = ("binary",)
    relevant = ("memory", "latency", "compute")
    judges = (judge_by_room(own=L1, stalls=GLOBAL_STALLS, kept=(*DRAM, *L2, *ARITHMETIC)),)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the narrowest coalesced load."""
        if not self.sass:
            return
        split = self.split_record()
        if split is not None:
            yield split
            return
        found = self._short_of_bytes()
        if found is not None:
            yield found
            return
        narrow = self._small()
        if narrow is not None:
            yield self.of_few_bytes(narrow)
            shared = self.bytes_in_shared()
            if shared is not None:
                yield shared
        else:
            yield from self.told_by_sass()

    def _small(self) -> Narrow | None:
        """A load of one or two bytes, where no other is wider than a word, or none in the loops that load most."""
        own, inner = self._narrowest() or self._hidden_narrowest(), self.small_in_loop()
        if inner is not None:
            line = own.place.line if own is not None and isinstance(own.place, Span) else None
            return own if line == inner.place else inner
        narrow = own if own is not None and own.bytes <= SMALL else self._narrow_elsewhere()
        if narrow is not None and narrow.bytes <= SMALL and self._widest_load() <= NARROW:
            return narrow
        return self._small_in_others()

    def _small_in_others(self) -> Narrow | None:
        """As `small_in_loop`, in an instantiation for other types than the one that is looked at."""
        others = [tool for tool in self.instances() if tool.view.compiled is not self.view.compiled]
        for tool in others[:_INSTANCES]:
            found = tool.small_in_loop() if tool.sass and any(tool.sass.flow.depths) else None
            if found is not None:
                given = ", ".join(tool.view.template_arguments.values())
                return msgspec.structs.replace(
                    found, where=f" where the arguments are {given}" if given else ""
                )
        return None

    def _widest_load(self) -> int:
        loads = self.sass.where(lambda x: x.opcode == "LDG")
        return max((access_bytes(self.sass.instructions[i]) for i in loads), default=0)

    def _narrow_elsewhere(self) -> Narrow | None:
        """As `_narrowest`, in an instantiation for elements of one or two bytes that is not the one looked at."""
        small = {
            name: size
            for compiled in self.view.evidence.compiled
            for name, given in self.view.arguments_of(compiled).items()
            if (size := _SMALL_TYPES.get(given.rsplit("::", 1)[-1].lstrip("_"))) is not None
        }
        for warp in self.view.warp_accesses:
            size = small.get(warp.access.element_type)
            if (
                size is not None
                and warp.access.reads
                and warp.stride == warp.element
                and self.is_compiled(warp)
            ):
                span = warp.access.span
                where = f" where {warp.access.element_type} has {size}"
                return Narrow(span, self.view.said(span), warp.access.name, size, where)
        return None

    def _short_of_bytes(self) -> Finding | None:
        """The finding where too few bytes are in flight for the device memory's latency."""
        shape = self.view.shape
        if shape is not None and shape.blocks < self.gpu.multiprocessors:
            return None
        # Where a block's warps meet they wait for each other too, which wider loads do not change.
        meets = any(x.opcode == "BAR" for x in self.sass.instructions)
        known = self.view.occupancy
        if meets or (known is not None and known.occupancy <= LOW_OCCUPANCY):
            return None
        found, narrow = known or self._at_best(), self._narrowest() or self._hidden_narrowest()
        per_thread = self.sass.loaded_bytes
        in_flight, needed = self.view.waiting.in_flight(found.warps), self.gpu.needed_bytes
        if not in_flight or narrow is None:
            return None
        most = self._gain(WIDE / max(narrow.bytes, self._widest_store(), min(per_thread, WIDE)))
        loud = known is not None
        if in_flight >= _short(narrow) * needed or (
            most < self.worth if loud else not self._is_bound_by_dram()
        ):
            return None
        # What is lacking in flight fills the memory pipeline; several elements at once spare more than that.
        lacking = needed / in_flight
        expected = min(most, lacking)
        if self._may_lie_in_l2():
            nearer = max(1.0, expected * self.gpu.costs.l2_wait / self.gpu.costs.memory_wait)
            expected = math.sqrt(expected * nearer)
        gain = Gain.of(expected, max(most, lacking)) if loud else None
        return self.finding(narrow.place,
            severity="warning" if loud else "information",
            confidence="medium",
            message=(
                f"{narrow.said} loads {narrow.bytes} {'byte' if narrow.bytes == 1 else 'bytes'} a thread: "
                f"{in_flight / 1024:.1f} KB in flight per SM{'' if known is not None else ' at full occupancy'} where "
                f"device memory needs {needed / 1024:.1f} KB."
            ),
            guidance=(
                f"Let each thread handle 16 bytes{f' of {narrow.name}' if narrow.name else ''} at once (a uint4 or "
                f"float4 load and store), or several independent elements a block's width apart.{self.of_aliases()}"
            ),
            evidence=(
                self.view.observe("bytes in flight per SM", in_flight, "byte", round(_short(narrow) * needed),
                    f"{_short(narrow):.0%} of latency times this SM's share of the DRAM roof",
                ),
                self.view.observe("theoretical occupancy", round(found.occupancy, 3)),
            ),
            gain=gain,
            index_query="vectorized copy alignment 128 bit",
        )  # fmt: skip

    def _may_lie_in_l2(self) -> bool:
        """Whether all that a launch moves may be in the L2, whose answers take less than half the time; it may where
        nothing tells how much that is."""
        shape = self.view.shape
        if shape is None:
            return True
        warps = shape.blocks * -(-(self.view.threads or 1) // self.gpu.limits.warp_size)
        return warps * self.view.traffic.moved().upper < self.gpu.l2_bytes

    def _widest_store(self) -> int:
        """Bytes: a thread takes as many elements at once as its widest access holds of their results."""
        stores = self.sass.where(lambda x: x.opcode == "STG")
        return max((min(access_bytes(self.sass.instructions[i]), WIDE) for i in stores), default=1)

    def _is_bound_by_dram(self) -> bool:
        """Whether device memory is busier than all else, whatever the launch."""
        demand = self.view.demand
        return demand.dram_lower > max(demand.pipes.values(), default=0.0)

    def _at_best(self) -> Occupancy:
        """What an SM holds of the kernel in blocks that suit it, where no launch tells the block."""
        assert self.view.compiled is not None
        resources = self.view.compiled.resources
        return occupancy(
            self.gpu.limits,
            block_threads=_SUITABLE,
            registers=resources.registers,
            shared_bytes=resources.shared_bytes,
        )

    def _narrowest(self) -> Narrow | None:
        """A coalesced load that became instructions of at most four bytes a lane."""
        found = [
            w
            for w in self.view.warp_accesses
            if w.access.reads and w.sectors <= w.ideal_sectors + 1 and w.element <= NARROW and self.is_compiled(w)
            and w.stride == w.element and self._is_narrow(w) and self._is_new(w)
        ]  # fmt: skip
        least = min(found, key=lambda w: w.element, default=None)
        if least is None:
            return None
        span = least.access.span
        return Narrow(span, self.view.said(span), least.access.name, least.element)

    def _is_new(self, warp: WarpAccess) -> bool:
        """Whether device memory may serve it: what other blocks read too is in the L2."""
        shares = self.view.traffic.compulsory_shares
        found = [shares[i] for i in self.sass.global_on(warp.access.span.line)]
        return not found or any(share is None or share > 0.0 for share in found)

    def _hidden_narrowest(self) -> Narrow | None:
        """The same of the deepest loop that loads, where only SASS tells that lanes are neighbours; none where any load
        there is wider, or not known to be coalesced."""
        sass = self.sass
        patterns = {p.index: p for p in sass.patterns if p.space == "global"}
        loads = [i for i in patterns if sass.instructions[i].opcode == "LDG"]
        deepest = max((sass.flow.depths[i] for i in loads), default=0)
        inner = [patterns[i] for i in loads if sass.flow.depths[i] == deepest]
        streams = [p for p in inner if p.stride == p.width]
        line = sass.hottest_line([p.index for p in streams])
        if line is None or len(streams) < len(inner) or any(p.width > NARROW for p in inner):
            return None
        return Narrow(line, "This line", "", min(p.width for p in streams))

    def _is_narrow(self, warp: WarpAccess) -> bool:
        loads = [self.sass.instructions[i] for i in self.sass.global_on(warp.access.span.line)]
        return any(is_load(x) and access_bytes(x) <= NARROW for x in loads)

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


def _short(narrow: Narrow) -> float:
    """Share of what Little's law asks, below which a load is too narrow."""
    return SHORT_OF_SMALL if narrow.bytes <= SMALL else SHORT
