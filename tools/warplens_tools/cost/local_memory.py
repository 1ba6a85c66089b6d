# SPDX-License-Identifier: Apache-2.0
"""What local loads and stores move: words that lie lane beside lane, in an L1 that all resident threads share.

Local memory is laid out word by word, each word of all lanes in one cache line ("CUDA C++ Programming Guide", "Device
Memory Accesses", local memory). Lanes at the same word fill whole sectors; lanes that data sends to different words
touch a sector each. The L1 keeps as much as it holds of the resident threads' frames, the L2 of all SMs' together;
what is written and not kept goes on as parts of sectors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from warplens_tools.cost.gain import bound_ratio, make_gain
from warplens_tools.evidence import CompiledKernel
from warplens_tools.finding import Gain
from warplens_tools.launches import theoretical_occupancy
from warplens_tools.memory.traffic import dram_bytes_per_clock, l1_bytes, l2_bytes_per_clock
from warplens_tools.sass.pipes import access_bytes, on_stack
from warplens_tools.sass.throughput import pipe_cycles
from warplens_tools.sass.varying import lane_dependent
from warplens_tools.view import KernelView

_WORD = 4


def local_clocks(
    view: KernelView, compiled: CompiledKernel, weights: Sequence[float], indices: Collection[int]
) -> dict[str, float]:
    """Clocks of an SM per warp that the local accesses at `indices` take of "l1 lines", "l2" and "dram"."""
    limits, costs = view.gpu.limits, view.gpu.costs
    lost, far = _lost(view, compiled)
    apart = lane_dependent(compiled.instructions)
    lines = l2 = dram = 0.0
    for i in indices:
        x = compiled.instructions[i]
        width = access_bytes(x)
        scattered = i in apart and not any(on_stack(o) for o in x.operands)
        touched, sectors = (
            _scattered(view, compiled)
            if scattered
            else (1.0, float(limits.warp_size * _WORD) / limits.sector_bytes)
        )
        touched, sectors = touched * width / _WORD, sectors * width / _WORD
        lines += weights[i] * max(1.0, touched / costs.lines_at_once)
        whole = sectors * limits.sector_bytes
        if x.opcode == "STL" and scattered:
            parts = sectors * costs.partial_write + touched * costs.partial_request
            l2 += weights[i] * lost * parts * limits.sector_bytes
            dram += weights[i] * lost * far * touched * costs.partial_line_bytes
        else:
            l2 += weights[i] * lost * max(whole, touched * costs.request_bytes)
            dram += weights[i] * lost * far * (sectors * costs.fetch_bytes if scattered else whole)
    return {
        "l1 lines": lines,
        "l2": l2 / l2_bytes_per_clock(view.gpu),
        "dram": dram / dram_bytes_per_clock(view.gpu),
    }


def local_gain(
    view: KernelView,
    compiled: CompiledKernel,
    weights: Sequence[float],
    removed: Collection[int],
    floor: Mapping[str, float],
) -> Gain | None:
    """Gain if the local accesses at `removed` were gone, and what they move with them; None where there are none."""
    if not removed or not compiled.instructions:
        return None
    gone = frozenset(removed)
    kept = [0.0 if i in gone else weight for i, weight in enumerate(weights)]
    share = 1.0 - sum(kept) / sum(weights)
    moved = local_clocks(view, compiled, weights, gone)
    loaded = {**floor, **{name: floor.get(name, 0.0) + clocks for name, clocks in moved.items()}}
    before = pipe_cycles(compiled.instructions, weights, view.gpu) | loaded
    ratio = bound_ratio(before, pipe_cycles(compiled.instructions, kept, view.gpu) | dict(floor))
    return make_gain(ratio, 1.0, max(ratio, 1.0 / max(1.0 - share, 0.05)))


def _lost(view: KernelView, compiled: CompiledKernel) -> tuple[float, float]:
    """Share of what is accessed again that the L1 no longer has, and of that what the L2 no longer has."""
    found = theoretical_occupancy(view.kernel, view.model, compiled, view.gpu)
    limits = view.gpu.limits
    threads = found.warps * limits.warp_size if found is not None else limits.max_threads
    blocks = found.blocks if found is not None else 1
    frames = float(threads * compiled.resources.stack_bytes)
    every = frames * view.gpu.multiprocessors
    if not frames:
        return 0.0, 0.0
    return (
        max(0.0, 1.0 - l1_bytes(view, compiled, blocks) / frames),
        max(0.0, 1.0 - view.gpu.l2_bytes / every),
    )


def _scattered(view: KernelView, compiled: CompiledKernel) -> tuple[float, float]:
    """Cache lines and sectors of a request whose lanes draw their words evenly, one word each."""
    limits = view.gpu.limits
    words = max(1.0, compiled.resources.stack_bytes / _WORD)
    side_by_side = limits.sector_bytes // _WORD
    groups = limits.warp_size / side_by_side

    def drawn(lanes: int) -> float:
        return words * (1.0 - (1.0 - 1.0 / words) ** lanes)

    return drawn(limits.warp_size), groups * drawn(side_by_side)
