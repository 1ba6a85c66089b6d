# SPDX-License-Identifier: Apache-2.0
"""Memory traffic of a kernel's SASS for one warp, joined with what the source says of addresses.

An access is *compulsory* traffic when its address changes with every loop around it that changes any
global address, and with every thread and block index that any global address of the kernel depends on:
then no two executions touch the same element; or when more than the L2 holds lies between two executions
that do (`warplens_tools.memory.reuse`). Otherwise a cache may serve it. What the source does not
tell counts in the upper figure only.

Where the lanes' addresses are known a request counts with the sectors it moves, not with the bytes its
lanes want (`warplens_tools.memory.coalescing`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from warplens_tools.arch.gpu import Gpu
from warplens_tools.cuda.facts.accesses import ArrayAccess, accesses
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3
from warplens_tools.cuda.values.forms import Form
from warplens_tools.evidence import CompiledKernel, Instruction
from warplens_tools.launches import block_extents, grid_blocks, theoretical_occupancy
from warplens_tools.memory.coalescing import WarpAccess, warp_accesses
from warplens_tools.memory.reuse import sweeps
from warplens_tools.sass.attribution import kernel_line
from warplens_tools.sass.pipes import access_bytes, is_load, is_store, space_of
from warplens_tools.text import Span
from warplens_tools.view import KernelView

#: What L2 gives of the rate of the SMs' ports, where it was not calibrated: an H200 gave 8.6 TB/s of the 16.7 TB/s
#: of its ports (docs/benchmarks/calibrate.json); the A100 whitepaper states 5120 bytes per clock for 108 of 64.
L2_OF_PORTS = 0.5
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
    #: Clocks of the L1: passes over its banks, and look-ups of cache lines.
    lines: float = 0.0


class _Request(msgspec.Struct, frozen=True):
    """What one warp instruction moves: bytes of device memory, bytes of L2; and the clocks of the L1."""

    dram: float
    l2: float
    lines: float


def global_traffic(
    compiled: CompiledKernel,
    weights: Sequence[float],
    view: KernelView,
    ideal: Collection[Span] = (),
) -> Traffic:
    """Global-memory traffic of one warp's pass; the accesses at spans `ideal` count as coalesced."""
    repeats = _Repeats(view)
    missing = l1_misses(view, compiled)
    lower = upper = l2 = lines = 0.0
    known = True
    for instruction, weight in zip(compiled.instructions, weights, strict=True):
        if space_of(instruction) != "global":
            continue
        group = repeats.accesses_of(instruction)
        compulsory = repeats.compulsory(group)
        request = _request(instruction, [repeats.by_span.get(a.span) for a in group], view, missing, ideal)
        upper += request.dram * weight
        lower += request.dram * weight * (compulsory or 0.0)
        l2 += request.l2 * weight * (compulsory or 0.0)
        lines += request.lines * weight
        known = known and compulsory is not None
    return Traffic(lower, upper, known, l2, lines)


def compulsory_shares(view: KernelView, compiled: CompiledKernel) -> list[float | None]:
    """By instruction: the share of its global accesses that no cache can serve; None where it is not known."""
    repeats = _Repeats(view)
    return [
        repeats.compulsory(repeats.accesses_of(x)) if space_of(x) == "global" else None
        for x in compiled.instructions
    ]


class _Repeats:
    """The global accesses of the kernel's lines, and which of them touch an element again."""

    def __init__(self, view: KernelView) -> None:
        self.view = view
        self.by_line = _global_accesses(view)
        warps = warp_accesses(view)
        for warp in warps:
            for used in warp.lines_used:
                if used != warp.access.span.line:
                    self.by_line.setdefault(used, []).append(warp.access)
        self.by_span = {w.access.span: w for w in warps}
        self.varying = _varying(self.by_line)
        self.swept = frozenset(s.access.span for s in sweeps(view))
        for sweep in sweeps(view):
            # What a function goes through stands on no line of the kernel but that of its call.
            if sweep.access not in (found := self.by_line.setdefault(sweep.access.span.line, [])):
                found.append(sweep.access)

    def accesses_of(self, instruction: Instruction) -> list[ArrayAccess]:
        """The accesses of its line that it may be."""
        line = kernel_line(instruction, self.view.model.path, self.view.kernel)
        return [a for a in self.by_line.get(line or 0, ()) if _matches(a, instruction)]

    def compulsory(self, group: Sequence[ArrayAccess]) -> float | None:
        """Share of the group that is compulsory: an instruction is as likely any of them as another."""
        states = [a.span in self.swept or is_compulsory(a, self.varying) for a in group]
        return states.count(True) / len(states) if states and None not in states else None


def _request(
    instruction: Instruction,
    group: Sequence[WarpAccess | None],
    view: KernelView,
    missing: float,
    ideal: Collection[Span],
) -> _Request:
    """The mean over the accesses of its line, of which any may be this instruction's."""
    limits = view.gpu.limits
    size = float(limits.warp_size * access_bytes(instruction))
    plain = _Request(size, size, size / limits.cache_line_bytes)
    known = [w for w in group if w is not None]
    if not known or len(known) < len(group):
        return plain
    found = [
        _moved(w, size, is_store(instruction), missing, w.access.span in ideal, plain, view) for w in known
    ]
    count = len(found)
    return _Request(
        sum(r.dram for r in found) / count,
        sum(r.l2 for r in found) / count,
        sum(r.lines for r in found) / count,
    )


def _moved(
    warp: WarpAccess, size: float, store: bool, missing: float, ideal: bool, plain: _Request, view: KernelView
) -> _Request:
    """What one access moves as an instruction of `size` bytes a warp."""
    limits, costs = view.gpu.limits, view.gpu.costs
    sector = limits.sector_bytes
    wanted = min(float(warp.wanted), size)
    if ideal or warp.sectors <= warp.least:
        return _Request(wanted, wanted, max(1.0, wanted / limits.cache_line_bytes))
    # A wide access that the compiler split into narrower ones touches all its sectors in each part.
    part = min(1.0, size / warp.wanted)
    lines = max(plain.lines, float(warp.passes), warp.lines / costs.lines_at_once)
    if store:
        return _Request(max(_written_back(warp, view) * part, wanted), _written(warp, view), lines)
    dram = max(warp.dram_sectors * sector * part, wanted)
    # A read's leftover is served by L1 unless later or other warps need it too late.
    # Accesses of the same elements find in L1 what the first of them brought.
    share = (
        warp.apart * min(1.0, warp.dram_sectors / warp.sectors)
        if warp.rest in ("nobody", "fields")
        else warp.apart
    )
    through = max(wanted, max(warp.sectors * sector, warp.lines * costs.request_bytes) * share)
    kept = 1.0 - missing if warp.rest == "loop" else 0.0
    return _Request(dram, wanted * kept + through * (1.0 - kept), lines)


def _written(warp: WarpAccess, view: KernelView) -> float:
    """Bytes of whole sectors that take the L2 as long as a store's, of which some are written in part."""
    sector, costs = view.gpu.limits.sector_bytes, view.gpu.costs
    if warp.rest == "block":
        # A sector that a neighbouring warp completes at once costs no more than another request.
        return float(warp.sectors * sector)
    words = max(1.0, warp.wanted / warp.sectors / view.gpu.limits.shared_bank_bytes)
    each = max(1.0, costs.partial_write / words)
    return (warp.whole + (warp.sectors - warp.whole) * each + warp.lines * costs.partial_request) * sector


def _written_back(warp: WarpAccess, view: KernelView) -> float:
    """Bytes of device memory that take as long as what a store sends there: this access's share of its sectors."""
    sector, costs = view.gpu.limits.sector_bytes, view.gpu.costs
    whole = warp.dram_sectors * sector
    if warp.rest not in ("nobody", "fields"):
        return whole
    # What an access of the same elements reads is there to be joined.
    line = costs.partial_line_bytes - (warp.sectors / warp.lines * sector if warp.read_too else 0.0)
    return max(whole, warp.lines * line * warp.left * warp.dram_sectors / warp.sectors)


def l1_misses(view: KernelView, compiled: CompiledKernel) -> float:
    """Share of the lines that the L1 has lost before a thread comes back to them: a line per thread and stretch."""
    found = theoretical_occupancy(view.kernel, view.model, compiled, view.gpu)
    limits = view.gpu.limits
    threads, blocks = limits.max_threads, 1
    if found is not None:
        threads, blocks = found.warps * limits.warp_size, found.blocks
    given = grid_blocks(view.kernel, view.model)
    if given is not None and found is not None and found.blocks:
        blocks = min(found.blocks, -(-given // view.gpu.multiprocessors))
        threads = threads * blocks // found.blocks
    walked = {w.access.name for w in warp_accesses(view) if w.rest == "loop" and w.access.reads}
    needed = threads * limits.cache_line_bytes * max(1, len(walked))
    holds = l1_bytes(view, compiled, blocks)
    return max(0.0, 1.0 - holds / needed) if needed else 0.0


def l1_bytes(view: KernelView, compiled: CompiledKernel, blocks: int) -> int:
    """Bytes of an SM's L1 beside the shared memory that `blocks` resident blocks take."""
    return view.gpu.limits.shared_bytes + _L1_BESIDE_SHARED - compiled.resources.shared_bytes * blocks


def dram_floor(
    compiled: CompiledKernel,
    weights: Sequence[float],
    view: KernelView,
    ideal: Collection[Span] = (),
) -> dict[str, float]:
    """Clocks that one warp's global traffic takes of what is not a pipe of the SM.

    "dram" and "l2" are clocks of an SM's share of those roofs for compulsory traffic, "l1 lines" the L1's
    clocks to look up cache lines. `ideal` as in `global_traffic`.
    """
    return floor_of(global_traffic(compiled, weights, view, ideal), view.gpu)


def floor_of(traffic: Traffic, gpu: Gpu) -> dict[str, float]:
    """Clocks of the memory levels for an amount of traffic; see `dram_floor`."""
    return {
        "dram": traffic.lower / dram_bytes_per_clock(gpu),
        "l2": traffic.l2 / l2_bytes_per_clock(gpu),
        "l1 lines": traffic.lines,
    }


def dram_bytes_per_clock(gpu: Gpu) -> float:
    """One SM's share of the DRAM roof, in bytes per SM clock."""
    return gpu.ceilings["dram"].value / gpu.clock_hz / gpu.multiprocessors


def l2_bytes_per_clock(gpu: Gpu) -> float:
    """One SM's share of the L2 roof, in bytes per SM clock; of a derived roof what L2s reach of it."""
    roof = gpu.ceilings["l2"]
    reached = roof.value if roof.kind == "calibrated" else roof.value * L2_OF_PORTS
    return reached / gpu.clock_hz / gpu.multiprocessors


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


def _global_accesses(view: KernelView) -> dict[int, list[ArrayAccess]]:
    extents = block_extents(view.kernel, view.model) or UNKNOWN_DIM3
    by_line: dict[int, list[ArrayAccess]] = {}
    for access in accesses(parse_tree(view.text), view.kernel, extents):
        if access.space == "global":
            by_line.setdefault(access.span.line, []).append(access)
    return by_line


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
