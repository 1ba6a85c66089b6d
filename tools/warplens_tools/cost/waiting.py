# SPDX-License-Identifier: Apache-2.0
"""Time that a kernel takes however little each unit has to do: waits that the resident warps do not hide, block starts.

An SM's clocks per warp are at least what one warp needs alone, in order, over the warps that the SM holds (Little's
law), and the time in which the card starts the warp's share of a block.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from warplens_tools.cost.stalls import residency
from warplens_tools.evidence import CompiledKernel
from warplens_tools.memory.traffic import compulsory_shares, dram_floor
from warplens_tools.sass.attribution import TRIPS_PER_LEVEL
from warplens_tools.sass.flow import Flow, analyse
from warplens_tools.sass.latency import L1_CLOCKS, waits
from warplens_tools.text import Span
from warplens_tools.view import KernelView


def standing_floor(
    view: KernelView, compiled: CompiledKernel, weights: Sequence[float], ideal: Collection[Span] = ()
) -> dict[str, float]:
    """`traffic.dram_floor` joined by `waiting_floor`: what stays where only addresses change."""
    return dram_floor(compiled, weights, view, ideal) | waiting_floor(view, compiled)


def waiting_floor(view: KernelView, compiled: CompiledKernel) -> dict[str, float]:
    """Clocks of an SM per warp, weighted as `attribution.weights`: "waiting" and "blocks"; empty where the launch is
    not known."""
    held = residency(view, compiled)
    if held is None:
        return {}
    starts = view.gpu.costs.block_start * view.gpu.multiprocessors
    return {"waiting": alone(view, compiled) / held.warps, "blocks": starts / held.block_warps}


def alone(view: KernelView, compiled: CompiledKernel) -> float:
    """Weighted clocks of one warp alone: in its loops, or else in all its code and the life of its block around it."""
    flow = analyse(compiled.instructions)
    memory = [_wait(view, share) for share in compulsory_shares(view, compiled)]
    # How often loops run is not known: where there are any they are taken to outlast the code around them.
    spent = 0.0 if flow.loops else view.gpu.costs.block_life
    for depth, indices in stretches(flow):
        if flow.loops and not depth:
            continue
        inside = [compiled.instructions[i] for i in indices]
        spent += waits(inside, view.gpu, [memory[i] for i in indices]).clocks * TRIPS_PER_LEVEL**depth
    return spent


def _wait(view: KernelView, share: float | None) -> float:
    """Clocks of a load: from device memory where no cache can have it, from the L1 where one has, else from the L2."""
    costs = view.gpu.costs
    if share is None:
        return costs.l2_wait
    return share * costs.memory_wait + (1.0 - share) * L1_CLOCKS


def stretches(flow: Flow) -> list[tuple[int, list[int]]]:
    """The code outside loops and that of each loop outside the loops in it, with its depth."""
    taken: set[int] = set()
    found = []
    for loop in sorted(flow.loops, key=lambda x: -x.depth):
        own = [i for i in flow.instructions_of(loop) if i not in taken]
        taken.update(own)
        found.append((loop.depth, own))
    rest = [i for i in range(len(flow.depths)) if i not in taken and i not in flow.rare]
    return [(0, rest), *found]
