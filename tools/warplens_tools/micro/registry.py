# SPDX-License-Identifier: Apache-2.0
"""The micro-profiling tools, in the order stage 2 runs them.

Other distributions add theirs through the entry-point group `warplens.micro`, each entry a subclass of `MicroTool`.
"""

from __future__ import annotations

import functools
import logging
from importlib.metadata import entry_points

from warplens_tools.micro import (
    aliasing_reload,
    alike_neighbours,
    all_pairs,
    allocation_in_loop,
    at_the_roof,
    barrier_heavy,
    barrier_tree,
    barriers_per_step,
    compared_root,
    constant_base,
    constant_power,
    copies_around_launch,
    dependent_loads,
    divergent_barrier,
    divergent_constant_access,
    double_in_float_kernel,
    element_gathers,
    elements_read_again,
    excess_barriers,
    full_divisions,
    generator_setup,
    global_atomic_contention,
    grid_too_small,
    host_sync_in_loop,
    idle_by_data,
    inactive_threads,
    indirect_access,
    integer_division,
    integer_in_double,
    invariant_division,
    l2_thrashing,
    launch_overhead,
    local_memory_array,
    lone_thread_loop,
    low_ilp,
    managed_faults,
    misaligned_access,
    missing_cache_reuse,
    narrow_block,
    non_fused_arithmetic,
    occupancy_block_size,
    occupancy_registers,
    occupancy_shared_memory,
    one_load_in_flight,
    one_warp_blocks,
    owned_sums,
    pageable_transfer,
    partial_warps,
    pass_per_step,
    passes_in_a_row,
    per_thread_chunks,
    register_spills,
    repeated_work,
    runtime_rows,
    scalar_access,
    scattered_atomics,
    search_per_thread,
    serial_copies,
    sfu_bound,
    shared_atomic_contention,
    shared_bank_conflicts,
    small_register_tile,
    strided_field_access,
    swapped_shared_sums,
    table_lookups,
    tensor_cores_unused,
    uncoalesced_global_read,
    uncoalesced_global_write,
    uncoalesced_in_call,
    uneven_loops,
    unoverlapped_copy,
    updates_by_data,
    warp_divergence,
    wave_quantization,
    wgmma_serialized,
    window_loads,
)
from warplens_tools.micro.base import MicroTool

log = logging.getLogger(__name__)

TOOLS: tuple[type[MicroTool], ...] = (
    divergent_constant_access.DivergentConstantAccess,
    global_atomic_contention.GlobalAtomicContention,
    scattered_atomics.ScatteredAtomics,
    owned_sums.OwnedSums,
    updates_by_data.UpdatesByData,
    l2_thrashing.L2Thrashing,
    misaligned_access.MisalignedAccess,
    missing_cache_reuse.MissingCacheReuse,
    window_loads.WindowLoads,
    elements_read_again.ElementsReadAgain,
    alike_neighbours.AlikeNeighbours,
    per_thread_chunks.PerThreadChunks,
    scalar_access.ScalarAccess,
    element_gathers.ElementGathers,
    indirect_access.IndirectAccess,
    shared_atomic_contention.SharedAtomicContention,
    swapped_shared_sums.SwappedSharedSums,
    strided_field_access.StridedFieldAccess,
    uncoalesced_global_read.UncoalescedGlobalRead,
    uncoalesced_global_write.UncoalescedGlobalWrite,
    uncoalesced_in_call.UncoalescedInCall,
    runtime_rows.RuntimeRows,
    narrow_block.NarrowBlock,
    shared_bank_conflicts.SharedBankConflicts,
    table_lookups.TableLookups,
    small_register_tile.SmallRegisterTile,
    register_spills.RegisterSpills,
    local_memory_array.LocalMemoryArray,
    aliasing_reload.AliasingReload,
    occupancy_registers.OccupancyRegisters,
    occupancy_shared_memory.OccupancySharedMemory,
    occupancy_block_size.OccupancyBlockSize,
    double_in_float_kernel.DoubleInFloatKernel,
    wgmma_serialized.WgmmaSerialized,
    grid_too_small.GridTooSmall,
    partial_warps.PartialWarps,
    one_warp_blocks.OneWarpBlocks,
    lone_thread_loop.LoneThreadLoop,
    divergent_barrier.DivergentBarrier,
    wave_quantization.WaveQuantization,
    low_ilp.LowIlp,
    one_load_in_flight.OneLoadInFlight,
    dependent_loads.DependentLoads,
    search_per_thread.SearchPerThread,
    unoverlapped_copy.UnoverlappedCopy,
    barrier_heavy.BarrierHeavy,
    barrier_tree.BarrierTrees,
    barriers_per_step.BarriersPerStep,
    integer_division.IntegerDivision,
    constant_power.ConstantPower,
    constant_base.ConstantBase,
    compared_root.ComparedRoot,
    integer_in_double.IntegerInDouble,
    invariant_division.InvariantDivision,
    full_divisions.FullDivisions,
    generator_setup.GeneratorSetup,
    repeated_work.RepeatedWork,
    all_pairs.AllPairs,
    sfu_bound.SfuBound,
    warp_divergence.WarpDivergence,
    idle_by_data.IdleByData,
    inactive_threads.InactiveThreads,
    uneven_loops.UnevenLoops,
    host_sync_in_loop.HostSyncInLoop,
    launch_overhead.LaunchOverhead,
    pass_per_step.PassPerStep,
    passes_in_a_row.PassesInARow,
    allocation_in_loop.AllocationInLoop,
    managed_faults.ManagedFaults,
    pageable_transfer.PageableTransfer,
    serial_copies.SerialCopies,
    copies_around_launch.CopiesAroundLaunch,
    excess_barriers.ExcessBarriers,
    non_fused_arithmetic.NonFusedArithmetic,
    tensor_cores_unused.TensorCoresUnused,
    at_the_roof.AtTheRoof,
)


@functools.cache
def all_tools() -> tuple[type[MicroTool], ...]:
    """The built-in tools, then those of other distributions by name; one that fails to load is skipped."""
    tools = list(TOOLS)
    for entry in sorted(entry_points(group="warplens.micro"), key=lambda e: e.name):
        try:
            tool = entry.load()
        except Exception:
            log.exception("cannot load micro-profiling tool %s", entry.name)
            continue
        if isinstance(tool, type) and issubclass(tool, MicroTool):
            tools.append(tool)
        else:
            log.error("micro-profiling tool %s is no subclass of MicroTool", entry.name)
    return tuple(tools)
