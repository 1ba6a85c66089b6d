# SPDX-License-Identifier: Apache-2.0
"""The micro-profiling tools, in the order stage 2 runs them.

Other distributions add theirs through the entry-point group `warplens.micro`, each entry a `MicroTool`.
"""

from __future__ import annotations

import functools
import logging
from importlib.metadata import entry_points

from warplens_tools.micro import (
    aliasing_reload,
    at_the_roof,
    barrier_heavy,
    divergent_constant_access,
    double_in_float_kernel,
    excess_barriers,
    global_atomic_contention,
    grid_too_small,
    host_sync_in_loop,
    integer_division,
    l2_thrashing,
    launch_overhead,
    local_memory_array,
    low_ilp,
    misaligned_access,
    missing_cache_reuse,
    non_fused_arithmetic,
    occupancy_block_size,
    occupancy_registers,
    occupancy_shared_memory,
    pageable_transfer,
    per_thread_chunks,
    register_spills,
    scalar_access,
    serial_copies,
    sfu_bound,
    shared_atomic_contention,
    shared_bank_conflicts,
    strided_field_access,
    tensor_cores_unused,
    uncoalesced_global_read,
    uncoalesced_global_write,
    unoverlapped_copy,
    warp_divergence,
    wave_quantization,
    wgmma_serialized,
)
from warplens_tools.micro.base import MicroTool

log = logging.getLogger(__name__)

TOOLS: tuple[MicroTool, ...] = (
    divergent_constant_access.TOOL,
    global_atomic_contention.TOOL,
    l2_thrashing.TOOL,
    misaligned_access.TOOL,
    missing_cache_reuse.TOOL,
    per_thread_chunks.TOOL,
    scalar_access.TOOL,
    shared_atomic_contention.TOOL,
    strided_field_access.TOOL,
    uncoalesced_global_read.TOOL,
    uncoalesced_global_write.TOOL,
    shared_bank_conflicts.TOOL,
    register_spills.TOOL,
    local_memory_array.TOOL,
    aliasing_reload.TOOL,
    occupancy_registers.TOOL,
    occupancy_shared_memory.TOOL,
    occupancy_block_size.TOOL,
    double_in_float_kernel.TOOL,
    wgmma_serialized.TOOL,
    grid_too_small.TOOL,
    wave_quantization.TOOL,
    low_ilp.TOOL,
    unoverlapped_copy.TOOL,
    barrier_heavy.TOOL,
    integer_division.TOOL,
    sfu_bound.TOOL,
    warp_divergence.TOOL,
    host_sync_in_loop.TOOL,
    launch_overhead.TOOL,
    pageable_transfer.TOOL,
    serial_copies.TOOL,
    excess_barriers.TOOL,
    non_fused_arithmetic.TOOL,
    tensor_cores_unused.TOOL,
    at_the_roof.TOOL,
)


@functools.cache
def all_tools() -> tuple[MicroTool, ...]:
    """The built-in tools, then those of other distributions by name; one that fails to load is skipped."""
    tools = list(TOOLS)
    for entry in sorted(entry_points(group="warplens.micro"), key=lambda e: e.name):
        try:
            tool = entry.load()
        except Exception:
            log.exception("cannot load micro-profiling tool %s", entry.name)
            continue
        if isinstance(tool, MicroTool):
            tools.append(tool)
        else:
            log.error("micro-profiling tool %s is not a MicroTool", entry.name)
    return tuple(tools)
