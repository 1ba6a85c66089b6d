# SPDX-License-Identifier: Apache-2.0
"""What local loads and stores move: words that lie lane beside lane, in an L1 that all resident threads share.

Local memory is laid out word by word, each word of all lanes in one cache line ("CUDA C++ Programming Guide", "Device
Memory Accesses", local memory). Lanes at the same word fill whole sectors; lanes that data sends to different words
touch a sector each. The L1 keeps as much as it holds of the resident threads' frames, the L2 of all SMs' together;
what is written and not kept goes on as parts of sectors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from warplens_tools.arch.gpu import SECTOR_BYTES
from warplens_tools.finding import Gain
from warplens_tools.kernel_code import KernelCode
from warplens_tools.machine.gain import removal_gain
from warplens_tools.machine.traffic import l1_bytes
from warplens_tools.sass.pipes import access_bytes, on_stack

_WORD = 4


def local_gain(code: KernelCode, removed: Collection[int], floor: Mapping[str, float]) -> Gain | None:
    """Gain if the local accesses at `removed` were gone, and what they move with them; None where there are none."""
    return removal_gain(code.sass, removed, floor, added=_LocalMemory(code).cycles(frozenset(removed)))


class _LocalMemory:
    """The local memory of one kernel's resident threads."""

    def __init__(self, code: KernelCode) -> None:
        self.code, self.sass, self.gpu = code, code.sass, code.gpu
        self.stack_bytes = code.compiled.resources.stack_bytes if code.compiled is not None else 0

    def cycles(self, indices: Collection[int]) -> dict[str, float]:
        """Cycles of an SM per warp that the local accesses at `indices` take of "l1 lines", "l2" and "dram"."""
        limits, costs = self.gpu.limits, self.gpu.costs
        lost, far = self._lost()
        apart = self.sass.lane_dependent
        lines = l2 = dram = 0.0
        for i in indices:
            x, weight = self.sass.instructions[i], self.sass.weights[i]
            words = access_bytes(x) / _WORD
            scattered = i in apart and not any(on_stack(o) for o in x.operands)
            lined = 1.0, float(limits.warp_size * _WORD) / SECTOR_BYTES
            touched, sectors = (n * words for n in (self._scattered() if scattered else lined))
            lines += weight * max(1.0, touched / costs.lines_at_once)
            whole = sectors * SECTOR_BYTES
            if x.opcode == "STL" and scattered:
                parts = sectors * costs.partial_write + touched * costs.partial_request
                l2 += weight * lost * parts * SECTOR_BYTES
                dram += weight * lost * far * touched * costs.partial_line_bytes
            else:
                l2 += weight * lost * max(whole, touched * costs.request_bytes)
                dram += weight * lost * far * (sectors * costs.fetch_bytes if scattered else whole)
        return {
            "l1 lines": lines,
            "l2": l2 / self.gpu.l2_bytes_per_clock,
            "dram": dram / self.gpu.dram_bytes_per_clock,
        }

    def _lost(self) -> tuple[float, float]:
        """Share of what is accessed again that the L1 no longer has, and of that what the L2 no longer has."""
        found, limits = self.code.occupancy, self.gpu.limits
        threads = found.warps * limits.warp_size if found is not None else limits.max_threads
        frames = float(threads * self.stack_bytes)
        if not frames:
            return 0.0, 0.0
        held = l1_bytes(self.code, found.blocks if found is not None else 1)
        every = frames * self.gpu.multiprocessors
        return max(0.0, 1.0 - held / frames), max(0.0, 1.0 - self.gpu.l2_bytes / every)

    def _scattered(self) -> tuple[float, float]:
        """Cache lines and sectors of a request whose lanes draw their words evenly, one word each."""
        limits = self.gpu.limits
        words = max(1.0, self.stack_bytes / _WORD)
        side_by_side = SECTOR_BYTES // _WORD
        groups = limits.warp_size / side_by_side

        def drawn(lanes: int) -> float:
            return words * (1.0 - (1.0 - 1.0 / words) ** lanes)

        return drawn(limits.warp_size), groups * drawn(side_by_side)
