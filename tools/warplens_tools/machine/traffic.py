# SPDX-License-Identifier: Apache-2.0
"""Memory traffic of a kernel's SASS for one warp, joined with what the source says of addresses.

An access is *compulsory* traffic when its address changes with every loop around it that changes any
global address, and with every thread and block index that any global address of the kernel depends on:
then no two executions touch the same element; or when more than the L2 holds lies between two executions
that do (`warplens_tools.machine.reuse`). Otherwise a cache may serve it. What the source does not
tell counts in the upper figure only.

Tables of the mathematical library, a few hundred bytes that all warps read, are no traffic of device memory or the L2.

Where the lanes' addresses are known a request counts with the sectors it moves, not with the bytes its
lanes want (`warplens_tools.machine.coalescing`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from warplens_tools.arch.gpu import SECTOR_BYTES, Gpu
from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.facts.library_calls import library_calls
from warplens_tools.cuda.values.forms import Form
from warplens_tools.evidence import Instruction
from warplens_tools.kernel_code import KernelCode
from warplens_tools.lazily import cached_property
from warplens_tools.machine.coalescing import WarpAccess
from warplens_tools.machine.reuse import Sweep
from warplens_tools.sass.pipes import access_bytes, is_load, is_store, space_of
from warplens_tools.sass.varying import in_constant_tables
from warplens_tools.text import Span

#: Bytes of an SM's L1 that shared memory cannot take: 28 KB of 256, 192 and 128 on sm_90, sm_80 and sm_86 ("CUDA C++
#: Programming Guide", the sections on the architectures).
_L1_BESIDE_SHARED = 28 * 1024


class Traffic(msgspec.Struct, frozen=True):
    """Weighted traffic of one warp."""

    #: Bytes of device memory: compulsory, and as if nothing were cached.
    lower: float
    upper: float
    #: Whether it is known of every access which of the two it belongs to.
    known: bool
    #: Bytes between L1 and L2 of what no L1 can keep.
    l2: float = 0.0
    #: Cycles of the L1: passes over its banks, and look-ups of cache lines.
    lines: float = 0.0


class _Request(msgspec.Struct, frozen=True):
    """What one warp instruction moves: bytes of device memory, bytes of L2; and the cycles of the L1."""

    dram: float
    l2: float
    lines: float


class MemoryTraffic:
    """The global-memory traffic of one kernel's SASS: how much a warp's pass moves, and the cycles that takes."""

    def __init__(self, code: KernelCode, warps: Sequence[WarpAccess], sweeps: Sequence[Sweep]) -> None:
        self.code, self.warps, self.gpu = code, warps, code.gpu
        self._by_span = {w.access.span: w for w in warps}
        self._swept = frozenset(s.access.span for s in sweeps)
        self._by_line: dict[int, list[ArrayAccess]] = {}
        for access in code.global_accesses:
            self._by_line.setdefault(access.span.line, []).append(access)
        for warp in warps:
            for used in warp.lines_used:
                if used != warp.access.span.line:
                    self._by_line.setdefault(used, []).append(warp.access)
        self._varying = _varying(self._by_line)
        #: Stands for what the library's tables are read by.
        self._library: list[ArrayAccess] = []
        for sweep in sweeps:
            # What a function goes through stands on no line of the kernel but that of its call.
            if sweep.access not in (found := self._by_line.setdefault(sweep.access.span.line, [])):
                found.append(sweep.access)

    def moved(self, weights: Sequence[float] | None = None, ideal: Collection[Span] = ()) -> Traffic:
        """Traffic of one warp's pass, with other weights where such are given; the accesses at spans `ideal` count as
        coalesced."""
        lower = upper = l2 = lines = 0.0
        known = True
        asked: dict[tuple[int, int, bool], _Request] = {}
        for i, (group, compulsory) in self._requests.items():
            weight = self.code.sass.weights[i] if weights is None else weights[i]
            x = self.code.sass.instructions[i]
            # Instructions of one line and kind have one group.
            key = id(group), access_bytes(x), is_store(x)
            if key not in asked:
                asked[key] = self._request(x, group, ideal)
            request = asked[key]
            upper += request.dram * weight
            lower += request.dram * weight * (compulsory or 0.0)
            l2 += request.l2 * weight * (compulsory or 0.0)
            lines += request.lines * weight
            known = known and compulsory is not None
        return Traffic(lower, upper, known, l2, lines)

    @cached_property
    def _requests(self) -> dict[int, tuple[list[ArrayAccess], float | None]]:
        """The global accesses: those of the source that each may be, and the share of them that is compulsory."""
        sass = self.code.sass
        found = {}
        groups: dict[tuple[int | None, bool, bool], tuple[list[ArrayAccess], float | None]] = {}
        for i, (x, line) in enumerate(zip(sass.instructions, sass.lines, strict=True)):
            if space_of(x) == "global":
                key = line, is_load(x), is_store(x)
                if key not in groups:
                    groups[key] = self._group(line, x)
                found[i] = (self._library, 0.0) if i in self._of_library else groups[key]
        return found

    @cached_property
    def _of_library(self) -> frozenset[int]:
        """The loads of the library's tables: constant ones, on a line that calls one of its functions, and in a
        kernel with such lines those of what only few arguments take, as the routine that reduces large angles."""
        sass, text = self.code.sass, self.code.text
        tables = in_constant_tables(sass.instructions)
        calling = {
            n for n in {*sass.written} if tables and n is not None and library_calls(text.line_text(n))
        }
        return frozenset(i for i in tables if sass.written[i] in calling or (calling and i in sass.flow.rare))

    def _group(self, line: int | None, x: Instruction) -> tuple[list[ArrayAccess], float | None]:
        group = [a for a in self._by_line.get(line or 0, ()) if _matches(a, x)]
        # An instruction is as likely any of them as another.
        states = [a.span in self._swept or is_compulsory(a, self._varying) for a in group]
        return group, states.count(True) / len(states) if states and None not in states else None

    @cached_property
    def compulsory_shares(self) -> tuple[float | None, ...]:
        """By instruction: the share of its global accesses that no cache can serve; None where it is not known."""
        found = self._requests
        return tuple(found[i][1] if i in found else None for i in range(len(self.code.sass.instructions)))

    @cached_property
    def fresh_shares(self) -> tuple[float | None, ...]:
        """As `compulsory_shares`, without what the L1 has since the iteration before, which went to the same sectors:
        of those alone that a thread walks through by itself."""
        return tuple(None if s is None else s * self._fresh(i) for i, s in enumerate(self.compulsory_shares))

    def _fresh(self, i: int) -> float:
        found = [self._by_span[a.span] for a in self._requests[i][0] if a.span in self._by_span]
        shares = [share if (share := fresh_share(w)) == 1.0 else max(share, self.l1_misses) for w in found]
        return sum(shares) / len(shares) if shares else 1.0

    def cycles(
        self, weights: Sequence[float] | None = None, ideal: Collection[Span] = ()
    ) -> dict[str, float]:
        """Cycles that one warp's global traffic takes of what is not a pipe of the SM.

        "dram" and "l2" are cycles of an SM's share of those roofs for compulsory traffic, "l1 lines" the L1's
        cycles to look up cache lines. Arguments as of `moved`; accesses that may repeat count as served by a cache.
        """
        return cycles_of(self.moved(weights, ideal), self.gpu)

    @cached_property
    def pessimistic_cycles(self) -> dict[str, float]:
        """As `cycles`, but where the source does not tell whether an access repeats, it counts as one that does not: a
        cause in the arithmetic is then claimed only if it outweighs even that."""
        traffic = self.moved()
        moved = traffic.lower if traffic.known else traffic.upper
        return cycles_of(traffic, self.gpu) | {"dram": moved / self.gpu.dram_bytes_per_clock}

    def _request(
        self, instruction: Instruction, group: Sequence[ArrayAccess], ideal: Collection[Span]
    ) -> _Request:
        """The mean over the accesses of its line, of which any may be this instruction's."""
        limits = self.gpu.limits
        size = float(limits.warp_size * access_bytes(instruction))
        plain = _Request(size, size, size / limits.cache_line_bytes)
        if group is self._library:
            return _Request(0.0, 0.0, plain.lines)
        known = [self._by_span[a.span] for a in group if a.span in self._by_span]
        if not known or len(known) < len(group):
            return plain
        store = is_store(instruction)
        found = [self._moved(w, size, plain, store=store, ideal=w.access.span in ideal) for w in known]
        count = len(found)
        return _Request(
            sum(r.dram for r in found) / count,
            sum(r.l2 for r in found) / count,
            sum(r.lines for r in found) / count,
        )

    def _moved(self, warp: WarpAccess, size: float, plain: _Request, *, store: bool, ideal: bool) -> _Request:
        """What one access moves as an instruction of `size` bytes a warp."""
        limits, costs = self.gpu.limits, self.gpu.costs
        sector = SECTOR_BYTES
        wanted = min(float(warp.wanted), size)
        if ideal or warp.sectors <= warp.ideal_sectors:
            return _Request(wanted, wanted, max(1.0, wanted / limits.cache_line_bytes))
        # A wide access that the compiler split into narrower ones touches all its sectors in each part.
        part = min(1.0, size / warp.wanted)
        lines = max(plain.lines, float(warp.passes), warp.lines / costs.lines_at_once)
        if store:
            return _Request(max(self._written_back(warp) * part, wanted), self._written(warp), lines)
        dram = max(warp.dram_sectors * sector * part, wanted)
        # A read's leftover is served by L1 unless later or other warps need it too late.
        # Accesses of the same elements find in L1 what the first of them brought.
        own = warp.reused_by in ("nobody", "fields")
        share = warp.unshared * (min(1.0, warp.dram_sectors / warp.sectors) if own else 1.0)
        through = max(wanted, max(warp.sectors * sector, warp.lines * costs.request_bytes) * share)
        kept = 1.0 - self.l1_misses if warp.reused_by == "loop" else 0.0
        return _Request(dram, wanted * kept + through * (1.0 - kept), lines)

    def _written(self, warp: WarpAccess) -> float:
        """Bytes of whole sectors that take the L2 as long as a store's, of which some are written in part, whoever
        completes them ("transposed stores, blocks of 16 by 16" in docs/benchmarks/costs.json: 43 for 16 sectors of
        8 bytes, 116 for 32 of 4)."""
        limits, costs = self.gpu.limits, self.gpu.costs
        words = max(1.0, warp.wanted / warp.sectors / limits.shared_bank_bytes)
        each = max(1.0, costs.partial_write / words)
        partly = (warp.sectors - warp.whole) * each
        return (warp.whole + partly + warp.lines * costs.partial_request) * SECTOR_BYTES

    def _written_back(self, warp: WarpAccess) -> float:
        """Bytes of device memory that take as long as what a store sends there: this access's share of its sectors."""
        sector, costs = SECTOR_BYTES, self.gpu.costs
        whole = warp.dram_sectors * sector
        if warp.reused_by not in ("nobody", "fields"):
            return whole
        # What an access of the same elements reads is there to be joined.
        line = costs.partial_line_bytes - (warp.sectors / warp.lines * sector if warp.read_too else 0.0)
        return max(whole, warp.lines * line * warp.partial_share * warp.dram_sectors / warp.sectors)

    @cached_property
    def l1_misses(self) -> float:
        """Share of the lines that the L1 has lost before a thread comes back to them: a line per thread and stretch."""
        found, limits = self.code.occupancy, self.gpu.limits
        threads, blocks = limits.max_threads, 1
        if found is not None:
            threads, blocks = found.warps * limits.warp_size, found.blocks
        given = self.code.launches.blocks
        if given is not None and found is not None and found.blocks:
            blocks = min(found.blocks, -(-given // self.gpu.multiprocessors))
            threads = threads * blocks // found.blocks
        walked = {w.access.name for w in self.warps if w.reused_by == "loop" and w.access.reads}
        needed = threads * limits.cache_line_bytes * max(1, len(walked))
        return max(0.0, 1.0 - l1_bytes(self.code, blocks) / needed) if needed else 0.0


def l1_bytes(code: KernelCode, blocks: int) -> int:
    """Bytes of an SM's L1 beside the shared memory that `blocks` resident blocks take."""
    taken = code.compiled.resources.shared_bytes * blocks if code.compiled is not None else 0
    return code.gpu.limits.shared_bytes + _L1_BESIDE_SHARED - taken


def cycles_of(traffic: Traffic, gpu: Gpu) -> dict[str, float]:
    """Cycles of the memory levels for an amount of traffic; see `MemoryTraffic.cycles`."""
    return {
        "dram": traffic.lower / gpu.dram_bytes_per_clock,
        "l2": traffic.l2 / gpu.l2_bytes_per_clock,
        "l1 lines": traffic.lines,
    }


def fresh_share(warp: WarpAccess) -> float:
    """Share of an access's requests that come to sectors which its iteration before did not: less than 1 where the
    lanes leave some of their sectors' bytes and the innermost loop goes on by less than a sector."""
    access, loops = warp.access, warp.access.loops
    if (
        access.index is None
        or not loops
        or not loops[-1].counter
        or warp.wanted >= warp.sectors * SECTOR_BYTES
    ):
        return 1.0
    moved = access.index.growth(loops[-1].counter)
    steps = moved.evaluate({}) if moved is not None else None
    return min(abs(steps) * warp.element / SECTOR_BYTES, 1.0) if steps else 1.0


def is_compulsory(access: ArrayAccess, varying: frozenset[str]) -> bool | None:
    """Whether no two executions of the access touch the same element; None where that is not known.

    `varying` are the thread and block indices that global addresses of the kernel depend on.
    """
    if access.index is None:
        return None
    needed = varying | {loop.counter or loop.variable for loop in access.loops if loop.variable}
    if any(not loop.variable for loop in access.loops):
        return None
    return all(access.index.mentions(name) for name in needed) and not (
        _folds(access.index) or _slides(access, access.index)
    )


def _slides(access: ArrayAccess, index: Form) -> bool:
    """Whether a loop moves a thread to where its neighbour was, as in `x[i + k]`."""
    threads = [index.growth(s.name) for s in index.symbols if s.kind in ("thread", "block")]
    moves = [index.growth(loop.counter) for loop in access.loops if loop.counter]
    return any(move is not None and move.terms and move in threads for move in moves)


def _folds(index: Form) -> bool:
    """Whether several threads fall on one element: `i / n` without `i % n`, or the other way round."""
    divided = {(s.operation, s.operands[1]) for s in index.symbols if s.operation in ("/", "%")}
    return any(("%" if operation == "/" else "/", by) not in divided for operation, by in divided)


def _varying(by_line: dict[int, list[ArrayAccess]]) -> frozenset[str]:
    return frozenset(
        symbol.name
        for group in by_line.values()
        for access in group
        if access.index is not None
        for symbol in access.index.symbols
        if symbol.kind in ("thread", "block")
    )


def _matches(access: ArrayAccess, instruction: Instruction) -> bool:
    return (
        access.atomic or (is_load(instruction) and access.reads) or (is_store(instruction) and access.writes)
    )
