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
from warplens_tools.evidence import CompiledKernel, Instruction
from warplens_tools.launches import block_extents, theoretical_occupancy
from warplens_tools.memory.coalescing import WarpAccess, warp_accesses
from warplens_tools.memory.reuse import sweeps
from warplens_tools.sass.attribution import kernel_line
from warplens_tools.sass.pipes import access_bytes, is_load, is_store, space_of
from warplens_tools.source.accesses import ArrayAccess, accesses
from warplens_tools.source.constants import UNKNOWN_DIM3
from warplens_tools.source.forms import Form
from warplens_tools.source.tree import parse_tree
from warplens_tools.text import Span
from warplens_tools.view import KernelView

#: What L2 gives of the rate of the SMs' ports, where it was not calibrated: an H200 gave 8.6 TB/s of the 16.7 TB/s
#: of its ports (docs/benchmarks/calibrate.json); the A100 whitepaper states 5120 bytes per clock for 108 of 64.
L2_OF_PORTS = 0.5


class Traffic(msgspec.Struct, frozen=True):
    """Weighted traffic of one warp."""

    #: Bytes of device memory: compulsory, and as if nothing were cached.
    lower: float
    upper: float
    #: Whether it is known of every access which of the two it belongs to.
    known: bool
    #: Bytes between L1 and L2 of what no L1 can keep.
    l2: float = 0.0
    #: Cache lines that the L1 looks up, one per clock.
    lines: float = 0.0


class _Request(msgspec.Struct, frozen=True):
    """What one warp instruction moves: bytes of device memory, bytes of L2, lines of L1."""

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
    by_line = _global_accesses(view)
    for warp in warp_accesses(view):
        for used in warp.lines_used:
            if used != warp.access.span.line:
                by_line.setdefault(used, []).append(warp.access)
    by_span = {w.access.span: w for w in warp_accesses(view)}
    varying = _varying(by_line)
    thrashed = l1_overflows(view, compiled)
    swept = frozenset(s.access.span for s in sweeps(view))
    lower = upper = l2 = lines = 0.0
    known = True
    for instruction, weight in zip(compiled.instructions, weights, strict=True):
        if space_of(instruction) != "global":
            continue
        line = kernel_line(instruction, view.model.path, view.kernel)
        group = [a for a in by_line.get(line or 0, ()) if _matches(a, instruction)]
        states = [a.span in swept or is_compulsory(a, varying) for a in group]
        # An instruction is as likely any of its line's accesses as another.
        compulsory = states.count(True) / len(states) if states and None not in states else 0.0
        request = _request(instruction, [by_span.get(a.span) for a in group], view, thrashed, ideal)
        upper += request.dram * weight
        lower += request.dram * weight * compulsory
        l2 += request.l2 * weight * compulsory
        lines += request.lines * weight
        known = known and bool(states) and None not in states
    return Traffic(lower, upper, known, l2, lines)


def _request(
    instruction: Instruction,
    group: Sequence[WarpAccess | None],
    view: KernelView,
    thrashed: bool,
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
        _moved(w, size, is_store(instruction), thrashed, w.access.span in ideal, plain, view) for w in known
    ]
    count = len(found)
    return _Request(
        sum(r.dram for r in found) / count,
        sum(r.l2 for r in found) / count,
        sum(r.lines for r in found) / count,
    )


def _moved(
    warp: WarpAccess, size: float, store: bool, thrashed: bool, ideal: bool, plain: _Request, view: KernelView
) -> _Request:
    """What one access moves as an instruction of `size` bytes a warp."""
    sector = view.gpu.limits.sector_bytes
    wanted = min(float(warp.wanted), size)
    if ideal or warp.sectors <= warp.least:
        return _Request(wanted, wanted, max(1.0, wanted / view.gpu.limits.cache_line_bytes))
    # A wide access that the compiler split into narrower ones touches all its sectors in each part.
    part = min(1.0, size / warp.wanted)
    dram = max(warp.dram_sectors * sector * part, wanted)
    # Stores are written through; a read's leftover is served by L1 unless later or other warps need it too late.
    through = store or warp.rest in ("nobody", "fields", "grid") or (warp.rest == "loop" and thrashed)
    l2 = float(warp.sectors * sector) if through else wanted
    return _Request(dram, l2, max(plain.lines, float(warp.lines)))


def l1_overflows(view: KernelView, compiled: CompiledKernel) -> bool:
    """Whether one line per resident thread is more than the L1 holds."""
    found = theoretical_occupancy(view.kernel, view.model, compiled, view.gpu)
    limits = view.gpu.limits
    threads = found.warps * limits.warp_size if found is not None else limits.max_threads
    shared = compiled.resources.shared_bytes * (found.blocks if found is not None else 1)
    return threads * limits.cache_line_bytes > limits.shared_bytes - shared


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
