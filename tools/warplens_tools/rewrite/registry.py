# SPDX-License-Identifier: Apache-2.0
"""The list of rewrites. A test compares it with the folder."""

from __future__ import annotations

from warplens_tools.rewrite import (
    block_per_row,
    coarsen_tile,
    constant_power,
    deal_out_chunks,
    divide_once,
    fast_intrinsics,
    float_literals,
    halo_tile,
    hold_row,
    launch_bounds,
    loop_into_grid,
    loop_into_threads,
    online_softmax,
    pad_shared_tile,
    private_histogram,
    reciprocal_root,
    reduce_before_atomic,
    register_tile,
    register_tile_again,
    restrict_const,
    several_outputs,
    share_serial_section,
    shared_tile,
    split_columns,
    spread_over_grid,
    stage_block_data,
    sum_in_register,
    swap_thread_axes,
    transpose_tile,
    tree_by_shuffle,
    warp_per_row,
    warp_reduction,
    widen_access,
    widen_loop,
)
from warplens_tools.rewrite.base import Rewrite

REWRITES: tuple[Rewrite, ...] = (
    pad_shared_tile.REWRITE,
    restrict_const.REWRITE,
    float_literals.REWRITE,
    warp_per_row.REWRITE,
    block_per_row.REWRITE,
    swap_thread_axes.REWRITE,
    deal_out_chunks.REWRITE,
    register_tile.REWRITE,
    register_tile_again.REWRITE,
    shared_tile.REWRITE,
    reduce_before_atomic.REWRITE,
    private_histogram.REWRITE,
    widen_access.REWRITE,
    split_columns.REWRITE,
    transpose_tile.REWRITE,
    several_outputs.REWRITE,
    share_serial_section.REWRITE,
    spread_over_grid.REWRITE,
    stage_block_data.REWRITE,
    loop_into_grid.REWRITE,
    loop_into_threads.REWRITE,
    sum_in_register.REWRITE,
    constant_power.REWRITE,
    fast_intrinsics.REWRITE,
    launch_bounds.REWRITE,
    reciprocal_root.REWRITE,
    divide_once.REWRITE,
    tree_by_shuffle.REWRITE,
    warp_reduction.REWRITE,
    widen_loop.REWRITE,
    coarsen_tile.REWRITE,
    halo_tile.REWRITE,
    hold_row.REWRITE,
    online_softmax.REWRITE,
)


def rewrite(slug: str) -> Rewrite | None:
    """The rewrite of that slug."""
    return next((r for r in REWRITES if r.slug == slug), None)
