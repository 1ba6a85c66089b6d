# SPDX-License-Identifier: Apache-2.0
"""What it costs that a warp sums up rows together, one after the other, where each lane summed up one by itself.

The rows are read side by side then, but each needs the steps of a tree by shuffles, and what stands around the loop is
done once a row, not once for all 32: beside a long row that is nothing, beside a row of 128 elements most of the time.
"""

from __future__ import annotations

import math

from warplens_tools.cuda.values.loop_headers import iterations
from warplens_tools.kernel import KernelView
from warplens_tools.machine.coalescing import WarpAccess
from warplens_tools.sass.listing import TRIPS_PER_LEVEL

#: Warp instructions of a step: exchange and combine.
_STEP = 2.0


def is_summed_by_lanes(view: KernelView, warp: WarpAccess) -> bool:
    """Whether each lane goes through a row of its own in a loop that writes nothing: it reduces."""
    if warp.reused_by != "loop" or not warp.access.reads or warp.access.writes or not warp.access.loops:
        return False
    return not writes_beside(view, warp)


def writes_beside(view: KernelView, warp: WarpAccess) -> bool:
    """Whether the access's innermost loop writes global memory as well: it maps elements, it reduces none."""
    inner = warp.access.loops[-1].span
    return any(a.writes and a.loops and a.loops[-1].span == inner for a in view.global_accesses)


def shuffled(view: KernelView, warp: WarpAccess) -> dict[str, float]:
    """Cycles of one warp's pass, by pipe as `Sass.cycles` has them, that come with going through such rows together;
    "waiting" as `Waiting.floor`. None where the rows' length is not known: they are taken to be long."""
    sass, gpu = view.sass, view.gpu
    here = [i for line in warp.lines_used for i in sass.global_on(line)]
    beside = sum(a.span.line in warp.lines_used for a in view.global_accesses)
    length = sass.weigh(here) / max(beside, 1)
    known = warp.access.loops[-1].trips or iterations(warp.access.loops[-1], view.arguments)
    depth = max((sass.flow.depths[i] for i in here), default=0)
    if not here or not depth or not length or not known:
        return {}
    rows, steps = gpu.limits.warp_size, math.log2(gpu.limits.warp_size)
    # How often the pass comes to the loop, and how much longer the model takes its rows to be than they are.
    times = TRIPS_PER_LEVEL ** (depth - 1)
    longer = length / times / known
    trees = longer * times * rows * steps
    around = sum(w for w, d in zip(sass.weights, sass.flow.depths, strict=True) if d == depth - 1)
    alone = gpu.costs.memory_wait + steps * (gpu.costs.shared_wait + _STEP)
    return {
        "lsu": trees,
        "issue": (trees * _STEP + longer * (rows - 1) * around) / gpu.limits.schedulers,
        "waiting": longer * times * rows * alone / max(view.waiting.resident_warps, 1),
    }
