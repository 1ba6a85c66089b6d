# SPDX-License-Identifier: Apache-2.0
"""Clocks that stay when a cause is removed, taken on the safe side."""

from __future__ import annotations

from collections.abc import Sequence

from warplens_tools.evidence import CompiledKernel
from warplens_tools.memory.traffic import dram_bytes_per_clock, floor_of, global_traffic
from warplens_tools.view import KernelView


def cautious_floor(view: KernelView, compiled: CompiledKernel, weight: Sequence[float]) -> dict[str, float]:
    """Clocks per warp of the memory levels, as `traffic.floor_of` names them.

    Where the source does not tell whether an access repeats, it counts as one that does not: a cause in the
    arithmetic is then claimed only if it outweighs even that.
    """
    traffic = global_traffic(compiled, weight, view)
    moved = traffic.lower if traffic.known else traffic.upper
    return floor_of(traffic, view.gpu) | {"dram": moved / dram_bytes_per_clock(view.gpu)}


#: Expected gain from which a cause in the arithmetic is said, as information, although accesses whose addresses the
#: source does not tell might hide it.
DOUBTFUL = 1.5


def hopeful_floor(view: KernelView, compiled: CompiledKernel, weight: Sequence[float]) -> dict[str, float]:
    """As `cautious_floor`, but with every access that may repeat served by a cache."""
    return floor_of(global_traffic(compiled, weight, view), view.gpu)
