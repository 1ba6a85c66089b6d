# SPDX-License-Identifier: Apache-2.0
"""Accesses of a few bytes a thread, where nothing shows that the kernel lacks bytes in flight: what wider ones spare
are instructions. All of it is information, as what they cost hangs on what else there is to do."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from warplens_tools.finding import Finding, Gain, RelatedSpan, count
from warplens_tools.machine.coalescing import WarpAccess
from warplens_tools.machine.gain import removal_gain
from warplens_tools.micro.common.sectors import SCATTERED, SectorTool
from warplens_tools.sass.adjacent import Run, runs
from warplens_tools.sass.pipes import access_bytes, is_load, pipe_of
from warplens_tools.sass.semantics import LOADED
from warplens_tools.text import Span

#: Bytes of an element that is small, of an access that is narrow, and of the widest.
SMALL, NARROW, WIDE = 2, 4, 16
#: Bytes of structs that one vector access takes.
_RECORDS = (8, WIDE)
#: Share of the global accesses, as often as each runs, that vectors take along, from which it is told.
_SPARED = 0.2
#: Share of the load/store pipe's instructions that load a byte of shared memory, from which it is told, where that pipe
#: is busy for this share of the busiest one's time.
_MOST, _BUSY = 0.5, 0.7
#: Instructions in all, and for each access of global memory, from which a thread that moves at most `WIDE` bytes is
#: mostly there to find out where they are.
_ALL, _EACH = 32, 10
#: Instructions of a kernel that does more than move: it meets others, or computes. A few scale what it moves.
_MEETS = frozenset({"BAR", "ATOM", "ATOMG", "ATOMS", "RED", "REDG", "CALL", "SHFL", "VOTE", "MATCH"})
_FEW, _COMPUTES = 0.1, frozenset({"fp64", "fp32", "fp16", "tensor"})


class Narrow(msgspec.Struct, frozen=True):
    """A load of few bytes a thread: where it stands, in words, of which array ("" if not told)."""

    place: Span | int
    said: str
    name: str
    bytes: int
    #: In which instantiation, where it is another than the one that is looked at.
    where: str = ""


class NarrowTool(SectorTool):
    """A tool that tells of narrow accesses."""

    def told_by_sass(self) -> Iterator[Finding]:
        """What the instructions alone show: vectors that were not used, then bytes of shared memory, or else a thread
        that has hardly anything to move."""
        every = [*self._unjoined()] or [*self._stored_bytes()]
        yield from every
        lines = {f.line for f in every}
        others = (self.bytes_in_shared, self._little)
        found = next((f for other in others if (f := other()) is not None and f.line not in lines), None)
        if found is not None:
            yield found

    def _unjoined(self) -> Iterator[Finding]:
        """Neighbouring elements that a thread moves one by one."""
        weight = self.sass.weights
        found = [run for run in runs(self.sass) if not self._is_unrolled(run)]
        every = sum(weight[i] for i in self.sass.where(lambda x: x.opcode in ("LDG", "STG")))
        spared = sum(weight[i] for run in found for i in run.spared)
        if not found or spared < _SPARED * every:
            return
        worst = max(found, key=lambda run: sum(weight[i] for i in run.spared))
        line = self.sass.hottest_line(worst.indices)
        if line is None:
            return
        what, many = ("loads" if worst.load else "stores"), len(worst.indices)
        yield self.finding(
            line,
            severity="information",
            confidence="low",
            message=(
                f"Neighbouring elements one by one: a thread takes {many} {what} of {worst.width} "
                f"byte{'s' if worst.width > 1 else ''} that follow one another, where one of {worst.vector} bytes "
                f"takes {worst.vector // worst.width} of them."
            ),
            guidance=(
                f"Move them as one vector ({_vector(worst.vector)}), where their address is a multiple of its size, "
                "and pack or unpack it in registers."
            ),
            evidence=(
                self.view.observe("bytes per access", float(worst.width), "byte", float(worst.vector)),
                self.view.observe(
                    "share of the global accesses that vectors spare", round(spared / every, 2)
                ),
            ),
            index_query="vectorized copy alignment 128 bit",
        )

    def _stored_bytes(self) -> Iterator[Finding]:
        """Elements of one or two bytes, side by side, that are stored singly: by a loop that works them out from no
        loads, or most of what the kernel stores."""
        sass = self.sass
        beside = {p.index for p in sass.patterns if p.space == "global" and p.stride == p.width}
        stores: list[int] = []
        for loop in sass.flow.loops:
            inside = sass.flow.instructions_of(loop)
            moves = [i for i in inside if sass.instructions[i].opcode in ("LDG", "STG")]
            if beside.issuperset(moves) and not any(is_load(sass.instructions[i]) for i in moves):
                stores += moves
        looped = bool(stores)
        stores = stores or self._small_stores(beside)
        width = max((access_bytes(sass.instructions[i]) for i in stores), default=0)
        line = sass.hottest_line(stores)
        if width > SMALL or line is None:
            return
        yield self.finding(
            line,
            severity="information",
            confidence="low",
            message=(
                f"Small elements one by one: this line stores {count(width, 'byte')} a thread"
                f"{' in each iteration' if looped else ''}, {self.gpu.limits.warp_size * width} a request: vector "
                f"accesses of 16 bytes take one instruction for {WIDE // width}."
            ),
            guidance=(
                "Let each thread work out several neighbouring elements and store them as one vector (uchar4, uint4), "
                "where alignment allows; of a random number use every byte."
            ),
            evidence=(self.view.observe("bytes per access", float(width), "byte", float(WIDE)),),
            index_query="vectorized copy alignment 128 bit",
        )

    def _small_stores(self, beside: Collection[int]) -> list[int]:
        """Stores of one or two bytes by lanes side by side, where half of all that the kernel stores are such."""
        sass = self.sass
        every = [i for i in sass.where(lambda x: x.opcode == "STG") if i not in sass.flow.rare]
        small = [i for i in every if i in beside and access_bytes(sass.instructions[i]) <= SMALL]
        return small if 2.0 * sass.weigh(small) >= sass.weigh(every) else []

    def _is_unrolled(self, run: Run) -> bool:
        """Whether the compiler made them of one access in a loop, which walks on through wider elements."""
        lines = {self.sass.lines[i] for i in run.indices}
        return len(lines) == 1 and bool(self.sass.flow.depths[run.indices[0]]) and run.width > SMALL

    def small_in_loop(self) -> Narrow | None:
        """Loads of one or two bytes in the deepest loop that loads: all of its loads, or at least half where the others
        are words. What data looks up comes one by one."""
        sass = self.sass
        loads = [i for i in sass.where(lambda x: x.opcode == "LDG") if i not in sass.flow.rare]
        deepest = max((sass.flow.depths[i] for i in loads), default=0)
        inner = [i for i in loads if sass.flow.depths[i] == deepest]
        small = [i for i in inner if access_bytes(sass.instructions[i]) <= SMALL]
        widest = max((access_bytes(sass.instructions[i]) for i in inner), default=0)
        if (
            not small
            or widest > NARROW
            or (widest > SMALL and not (deepest and 2 * len(small) >= len(inner)))
        ):
            return None
        width = max(access_bytes(sass.instructions[i]) for i in small)
        chosen = {p.index for p in sass.patterns if p.space == "global" and p.why.endswith(LOADED)}
        line = sass.hottest_line([i for i in small if i not in chosen])
        return Narrow(line, "This line", "", width) if line is not None else None

    def _small_too(self, narrow: Narrow) -> tuple[RelatedSpan, ...]:
        """Lines of other loads in loops that are as narrow."""
        code, here = (
            self.sass.instructions,
            narrow.place.line if isinstance(narrow.place, Span) else narrow.place,
        )
        loads = self.sass.where(lambda x: x.opcode == "LDG" and access_bytes(x) <= SMALL)
        lines = {self.sass.lines[i]: access_bytes(code[i]) for i in loads if self.sass.flow.depths[i]}
        others = sorted((n, size) for n, size in lines.items() if n is not None and n != here)
        return tuple(
            RelatedSpan(self.view.line_span(n), f"loads {count(size, 'byte')} a thread too")
            for n, size in others[:4]
        )

    def bytes_in_shared(self) -> Finding | None:
        """Bytes that are read from shared memory one by one, and keep the load/store pipe as busy as any."""
        weight, code = self.sass.weights, self.sass.instructions
        every = self.sass.where(lambda x: pipe_of(x) == "lsu")
        small = [i for i in every if code[i].opcode == "LDS" and access_bytes(code[i]) == 1]
        line, cycles = self.sass.hottest_line(small), self.sass.cycles
        if line is None or sum(weight[i] for i in small) < _MOST * sum(weight[i] for i in every):
            return None
        if cycles.get("lsu", 0.0) < _BUSY * max(cycles.values()):
            return None
        return self.finding(
            line,
            severity="information",
            confidence="low",
            message=(
                "Bytes one by one: this line loads 1 byte a thread from shared memory, and the load/store pipe is "
                f"{cycles['lsu'] / max(cycles.values()):.0%} as busy as the busiest: a word holds four."
            ),
            guidance=(
                "Let a thread handle four neighbouring elements: load words and take them apart with __byte_perm, or "
                "compare and add them four at a time (__vabsdiffu4, __dp4a)."
            ),
            evidence=(self.view.observe("bytes per shared load", 1.0, "byte", float(NARROW)),),
        )

    def _little(self) -> Finding | None:
        """A kernel without loops in which a thread moves a few bytes and mostly works out where they are."""
        sass = self.sass
        code = [x for i, x in enumerate(sass.instructions) if i not in sass.flow.rare]
        moves = [i for i in sass.where(lambda x: x.opcode in ("LDG", "STG")) if i not in sass.flow.rare]
        stores = [i for i in moves if sass.instructions[i].opcode == "STG"]
        bytes_ = sum(access_bytes(sass.instructions[i]) for i in moves)
        # A reciprocal is most often an integer division's, of an index.
        works = sum(
            pipe_of(x) in _COMPUTES or (x.opcode == "MUFU" and "RCP" not in x.modifiers) for x in code
        )
        ends = next((n for n, x in enumerate(code) if x.opcode == "BRA" and x.target == x.address), len(code))
        line = sass.hottest_line(stores)
        alone = not sass.flow.loops and not any(x.opcode in _MEETS for x in code)
        mostly_moves = alone and works <= _FEW * ends and bytes_ <= WIDE
        apart = any(w.overfetch >= SCATTERED for w in self.view.warp_accesses)
        if line is None or not mostly_moves or apart or ends < max(_ALL, _EACH * len(moves)):
            return None
        return self.finding(
            line,
            severity="information",
            confidence="low",
            message=(
                f"Little work a thread: {ends} instructions for the {bytes_} bytes that a thread moves, most of them "
                "to find out where these are."
            ),
            guidance=(
                "Let each thread handle several neighbouring elements (a vector of 8 or 16 bytes where alignment "
                "allows): the index arithmetic and the start of a block are then shared by all of them."
            ),
            evidence=(
                self.view.observe("instructions of a thread", float(ends)),
                self.view.observe(
                    "bytes of global memory that a thread moves", float(bytes_), "byte", float(WIDE)
                ),
            ),
            index_query="vectorized copy alignment 128 bit",
        )

    def of_aliases(self) -> str:
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

    def of_few_bytes(self, narrow: Narrow) -> Finding:
        """That the kernel moves few bytes an instruction, where nothing shows that it lacks bytes in flight."""
        bytes_ = "byte" if narrow.bytes == 1 else "bytes"
        return self.finding(narrow.place,
            severity="information",
            confidence="low",
            message=(
                f"{narrow.said} loads {narrow.bytes} {bytes_} a thread{narrow.where}: "
                f"vector accesses of 16 bytes take one instruction for {WIDE // narrow.bytes}."
            ),
            guidance=(
                f"Let each thread handle several neighbouring elements{f' of {narrow.name}' if narrow.name else ''} at "
                f"once (a uint4 or float4 load and store), where alignment allows.{self.of_aliases()}"
            ),
            evidence=(self.view.observe("bytes per access", float(narrow.bytes), "byte", float(WIDE)),),
            related=self._small_too(narrow),
            index_query="vectorized copy alignment 128 bit",
        )  # fmt: skip

    def split_record(self) -> Finding | None:
        """A struct of 8 or 16 bytes, all of them used, that is loaded or stored a member at a time."""
        for warp in self.view.warp_accesses:
            if not (warp.stride == warp.element == warp.used and warp.element in _RECORDS):
                continue
            here = [i for n in warp.lines_used for i in self.sass.global_on(n)]
            alike = [i for i in here if is_load(self.sass.instructions[i]) == warp.access.reads]
            parts = [i for i in alike if access_bytes(self.sass.instructions[i]) < warp.element]
            if len(parts) * NARROW < warp.element or len(parts) < len(alike):
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
            "uint4" if warp.element == WIDE else "uint2",
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


def _vector(size: int) -> str:
    return {16: "float4 or uint4", 8: "float2 or uint2", 4: "uchar4, short2 or half2"}.get(size, "uchar2")
