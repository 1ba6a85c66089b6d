# SPDX-License-Identifier: Apache-2.0
"""Bank conflicts of a kernel's shared-memory accesses, from their addresses as functions of `threadIdx`.

Where the source tells of a conflict, or does not tell, SASS decides if it does: the compiler may have merged
scalar accesses into wide ones, which are served in other parts of a warp.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warplens_tools.cuda.facts.accesses import ArrayAccess, accesses
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3
from warplens_tools.evidence import CompiledKernel, Tier
from warplens_tools.launches import block_extents
from warplens_tools.memory.address_evidence import pattern_of
from warplens_tools.sass.attribution import kernel_line
from warplens_tools.sass.banks import conflict_degree, warp_lanes, wavefronts
from warplens_tools.view import KernelView

#: Two settings of everything that is the same for all lanes: a degree must not depend on it.
_PROBES = (0, 7)


class Conflict(msgspec.Struct, frozen=True):
    """One access with its passes over the passes of a conflict-free access of the same width."""

    access: ArrayAccess
    degree: float
    passes: int
    #: The tier that tells it.
    tier: Tier = "source"


def conflicts(view: KernelView) -> list[Conflict]:
    """Every shared-memory access of the kernel whose addresses are known well enough, in text order."""
    extents = block_extents(view.kernel, view.model)
    found = accesses(parse_tree(view.text), view.kernel, extents or UNKNOWN_DIM3)
    shared = [a for a in found if a.space == "shared"]
    every = [_as_compiled(a, conflict_of(a, extents, view), view) for a in shared]
    return [c for c in every if c is not None]


def _as_compiled(access: ArrayAccess, conflict: Conflict | None, view: KernelView) -> Conflict | None:
    """What SASS tells of an access that the source does not tell or calls a conflict."""
    if conflict is not None and conflict.degree <= 1.0:
        return conflict
    pattern = pattern_of(view, access, "shared")
    if pattern is None or pattern.conflict is None or pattern.passes is None:
        return conflict
    if conflict is not None and (conflict.degree, conflict.passes) == (pattern.conflict, pattern.passes):
        return conflict
    return Conflict(access, pattern.conflict, pattern.passes, "binary")


def conflict_of(
    access: ArrayAccess, extents: tuple[int, int, int] | None, view: KernelView
) -> Conflict | None:
    """The access's conflict degree; None where its address is not known well enough."""
    width = type_bytes(access.element_type)
    if access.index is None or width is None:
        return None
    # Where the block is not known a warp is taken to run along x: true of every block 32 or more wide.
    block = extents or (view.gpu.limits.warp_size, 1, 1)
    degrees = set()
    for probe in _PROBES:
        shared = {s.name: probe for s in access.index.symbols if s.kind not in ("thread", "derived")}
        lanes = []
        for x, y, z in warp_lanes(block, view.gpu.limits.warp_size):
            values = shared | {"threadIdx.x": x, "threadIdx.y": y, "threadIdx.z": z}
            at = access.index.evaluate(values)
            if at is None:
                return None
            lanes.append(at * width)
        degrees.add(
            (conflict_degree(lanes, width, view.gpu.limits), wavefronts(lanes, width, view.gpu.limits))
        )
    if len(degrees) != 1:
        return None
    degree, passes = degrees.pop()
    return Conflict(access, degree, passes)


def shared_indices_on(view: KernelView, compiled: CompiledKernel, line: int) -> list[int]:
    """Indices of the shared-memory instructions that a line became."""
    return [
        i
        for i, x in enumerate(compiled.instructions)
        if x.opcode in {"LDS", "STS", "ATOMS"} and kernel_line(x, view.model.path, view.kernel) == line
    ]


def extra_passes(
    view: KernelView, compiled: CompiledKernel, weights: Sequence[float], found: Sequence[Conflict]
) -> float:
    """Weighted passes of the shared-memory path that the conflicts add to one warp's pass."""
    return sum(
        weights[i] * (conflict.passes - conflict.passes / conflict.degree)
        for conflict in found
        for i in shared_indices_on(view, compiled, conflict.access.span.line)
    )
