# SPDX-License-Identifier: Apache-2.0
"""Instructions are traced to lines through their inline chain."""

from __future__ import annotations

from tests.tools.sass.written import code, placed

from warplens_tools.cuda.parse import parse
from warplens_tools.evidence import Instruction
from warplens_tools.sass.attribution import LineTable
from warplens_tools.text import SourceText

SOURCE = """__device__ float half(float v)
{
    return v / 2;
}
__global__ void k(float *a)
{
    *a = half(*a);
}
"""
(ADD,) = code("FADD R0, R1, R2")


def table() -> LineTable:
    (kernel,) = parse(SourceText(SOURCE), "dir/k.cu").kernels
    return LineTable(kernel, "dir/k.cu")


def lines(x: Instruction) -> tuple[int | None, int | None]:
    return table().kernel_line(x), table().written_line(x)


def test_what_was_inlined_belongs_to_the_line_that_calls() -> None:
    assert lines(placed(ADD, 7)) == (7, 7)
    assert lines(placed(ADD, 3, 7)) == (7, 3)


def test_other_files_have_no_line_here_and_paths_go_by_name() -> None:
    assert lines(placed(ADD, 7, path="math.hpp")) == (None, None)
    assert lines(placed(ADD, 7, path="/tmp/build/k.cu")) == (7, 7)
    assert lines(ADD) == (None, None)


def test_an_instruction_passes_every_line_of_its_chain() -> None:
    x = placed(ADD, 3, 7)
    assert [n for n in range(1, 9) if table().passes(x, n)] == [3, 7]
