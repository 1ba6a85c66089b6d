# SPDX-License-Identifier: Apache-2.0
"""Loops that no thread goes through more than once: `for (int i = threadIdx.x; i < 40; i += blockDim.x)` in a block of
more threads than that only says who has a part."""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.values.loop_headers import Loop, iterations
from warplens_tools.kernel_code import KernelCode
from warplens_tools.sass.listing import TRIPS_PER_LEVEL


def turned_weights(code: KernelCode) -> tuple[float, ...]:
    """`Sass.weights`, in which those loops count one turn."""
    sass, once = code.sass, tuple(_single(code))
    weights = list(sass.weights)
    for loop in sass.flow.loops:
        inside = sass.flow.instructions_of(loop)
        lines = {n for i in inside if (n := sass.lines[i]) is not None}
        if lines and any(all(x.span.contains_line(n) for n in lines) for x in once):
            for i in inside:
                weights[i] /= TRIPS_PER_LEVEL
    return tuple(weights)


def _single(code: KernelCode) -> Iterator[Loop]:
    """The loops around an access that the first thread of the first block, which starts first, goes through once at
    most."""
    first = {f"{of}.{axis}": 0 for of in ("threadIdx", "blockIdx") for axis in "xyz"}
    sizes = {f"blockDim.{axis}": n for axis, n in zip("xyz", code.dim3, strict=True) if n is not None}
    known = {**first, **sizes, **code.launches.grid}
    for loop in {x.span: x for a in code.accesses for x in a.loops}.values():
        turns = loop.trips if loop.trips is not None else iterations(loop, known)
        if turns is not None and turns <= 1:
            yield loop
