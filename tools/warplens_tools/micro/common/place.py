# SPDX-License-Identifier: Apache-2.0
"""Where a cause is written: in the kernel itself, or in a device function of its file that it calls."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warplens_tools.evidence import CompiledKernel
from warplens_tools.finding import RelatedSpan
from warplens_tools.sass.attribution import hottest_line, kernel_line, weights, written_line
from warplens_tools.sass.flow import Flow
from warplens_tools.view import KernelView


class Place(msgspec.Struct, frozen=True):
    """A line of the file and, where it is a device function's, the line of the kernel that calls it."""

    line: int | None
    related: tuple[RelatedSpan, ...] = ()


def hottest_place(view: KernelView, compiled: CompiledKernel, flow: Flow, indices: Sequence[int]) -> Place:
    """Where the instructions with the largest weight among `indices` are written."""
    weight, total = weights(flow), dict[int, float]()
    for i in indices:
        line = written_line(compiled.instructions[i], view.model.path)
        if line is not None:
            total[line] = total.get(line, 0.0) + weight[i]
    line = max(sorted(total), key=lambda n: total[n], default=None)
    if line is None or view.kernel.span.contains_line(line):
        return Place(line)
    here = [i for i in indices if written_line(compiled.instructions[i], view.model.path) == line]
    caller = hottest_line(compiled, flow, here, view.model.path, view.kernel)
    if caller is None:
        return Place(line)
    return Place(line, (RelatedSpan(view.line_span(caller), f"{view.kernel.name} calls it here"),))


def lines_of(view: KernelView, compiled: CompiledKernel, index: int) -> tuple[int | None, int | None]:
    """The line an instruction is written on, and that of the kernel it belongs to."""
    x = compiled.instructions[index]
    return written_line(x, view.model.path), kernel_line(x, view.model.path, view.kernel)
