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
among many and this card's roof. Where no
launch tells the block, it is information, of a kernel that device memory bounds, at the occupancy of blocks of 256.
Where enough bytes are in flight, elements of one and two bytes taken singly are information.

**References.** V. Volkov, "Better Performance at Lower Occupancy", GTC 2010; J. Luitjens, "CUDA Pro Tip: Increase
Performance with Vectorized Memory Access", NVIDIA Technical Blog; GPUscout's check of vector loads.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from warplens_tools.arch.occupancy import Occupancy, occupancy
from warplens_tools.finding import Finding, Gain
from warplens_tools.machine.coalescing import WarpAccess
from warplens_tools.machine.gain import removal_gain
from warplens_tools.machine.waiting import LOW_OCCUPANCY
from warplens_tools.micro.common.judges import ARITHMETIC, DRAM, GLOBAL_STALLS, L1, L2, judge_by_room
from warplens_tools.micro.common.sectors import SectorTool
from warplens_tools.sass.pipes import access_bytes, is_load
from warplens_tools.text import Span

#: Share of the bytes that Little's law asks for, below which it is said; latency is known to a factor.
SHORT = 0.5
#: The same where a lane takes one or two bytes: its block's life around the load has as few bytes on their way.
SHORT_OF_SMALL = 1.0
_SMALL = 2
_NARROW, _WIDE = 4, 16
#: Bytes of element types that kernels are instantiated for, by the last part of their names.
_SMALL_TYPES = {
    "half": 2, "Half": 2, "nv_bfloat16": 2, "BFloat16": 2, "short": 2, "unsigned short": 2,
    "char": 1, "signed char": 1, "unsigned char": 1, "nv_fp8_e4m3": 1, "nv_fp8_e5m2": 1,
}  # fmt: skip
#: Threads of a block that suits a kernel without barriers.
_SUITABLE = 256
#: Bytes of structs that one vector access takes.
_RECORDS = (8, 16)


class Narrow(msgspec.Struct, frozen=True):
    """A load of few bytes a thread: where it stands, in words, of which array ("" if not told)."""

    place: Span | int
    said: str
    name: str
    bytes: int
    #: In which instantiation, where it is another than the one that is looked at.
    where: str = ""


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
        found = self._short_of_bytes()
        if found is not None:
            yield found
            return
        own = self._narrowest() or self._hidden_narrowest()
        narrow = own if own is not None and own.bytes <= _SMALL else self._narrow_elsewhere()
        if narrow is not None and narrow.bytes <= _SMALL and self._widest_load() <= _NARROW:
            yield self._few_bytes(narrow)

    def _few_bytes(self, narrow: Narrow) -> Finding:
        """That the kernel moves few bytes an instruction, where nothing shows that it lacks bytes in flight."""
        bytes_ = "byte" if narrow.bytes == 1 else "bytes"
        return self.finding(narrow.place,
            severity="information",
            confidence="low",
            message=(
                f"{narrow.said} loads {narrow.bytes} {bytes_} a thread{narrow.where}: "
                f"vector accesses of 16 bytes take one instruction for {_WIDE // narrow.bytes}."
            ),
            guidance=(
                f"Let each thread handle several neighbouring elements{f' of {narrow.name}' if narrow.name else ''} at "
                f"once (a uint4 or float4 load and store), where alignment allows.{self._of_aliases()}"
            ),
            evidence=(self.view.observe("bytes per access", float(narrow.bytes), "byte", float(_WIDE)),),
            index_query="vectorized copy alignment 128 bit",
        )  # fmt: skip

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
        most = self._gain(_WIDE / max(narrow.bytes, self._widest_store(), min(per_thread, _WIDE)))
        loud = known is not None
        if in_flight >= _short(narrow) * needed or (
            most < self.worth if loud else not self._is_bound_by_dram()
        ):
            return None
        # What is lacking in flight fills the memory pipeline; several elements at once spare more than that.
        lacking = needed / in_flight
        gain = Gain.of(min(most, lacking), max(most, lacking)) if loud else None
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
                f"float4 load and store), or several independent elements a block's width apart.{self._of_aliases()}"
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

    def _widest_store(self) -> int:
        """Bytes: a thread takes as many elements at once as its widest access holds of their results."""
        stores = self.sass.where(lambda x: x.opcode == "STG")
        return max((min(access_bytes(self.sass.instructions[i]), _WIDE) for i in stores), default=1)

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

    def _of_aliases(self) -> str:
        """What keeps a loop's loads from being issued ahead: a store between them that may go to the same place."""
        depths = self.sass.flow.depths
        loads = self.sass.where(lambda x: x.opcode == "LDG" and "CONSTANT" not in x.modifiers)
        stores = self.sass.where(lambda x: x.opcode == "STG")
        tied = {depths[i] for i in loads} & {depths[i] for i in stores} - {0}
        return (
            " Mark the pointers __restrict__: a store keeps the next loads from being issued ahead."
            if tied
            else ""
        )

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

    def _narrowest(self) -> Narrow | None:
        """A coalesced load that became instructions of at most four bytes a lane."""
        found = [
            w
            for w in self.view.warp_accesses
            if w.access.reads and w.sectors <= w.ideal_sectors + 1 and w.element <= _NARROW and self.is_compiled(w)
            and w.stride == w.element and self._is_narrow(w)
        ]  # fmt: skip
        least = min(found, key=lambda w: w.element, default=None)
        if least is None:
            return None
        span = least.access.span
        return Narrow(span, self.view.said(span), least.access.name, least.element)

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
        if line is None or len(streams) < len(inner) or any(p.width > _NARROW for p in inner):
            return None
        return Narrow(line, "This line", "", min(p.width for p in streams))

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


def _short(narrow: Narrow) -> float:
    """Share of what Little's law asks, below which a load is too narrow."""
    return SHORT_OF_SMALL if narrow.bytes <= _SMALL else SHORT
