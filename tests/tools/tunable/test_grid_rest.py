# SPDX-License-Identifier: Apache-2.0
"""Grids that leave a rest of what the original's, rounded up, do."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.tunable.follows import why_not_followed
from warplens_tools.tunable.grid_rest import why_rest_left
from warplens_tools.tunable.source import File

PROGRAM = """
#include <cstdlib>
inline int up(int a, int b) { return (a + b - 1) / b; }
__global__ void rows(const float* in, float* out, int rows, int columns) {
    const int row = blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= rows) return;
    float sum = 0;
    for (int c = threadIdx.x % 32; c < columns; c += 32) sum += in[row * columns + c];
    atomicAdd(&out[row], sum);
}
void launch(const float* in, float* out, int rows_given, int columns) {
    const int blocks = (rows_given + 7) / 8;
    rows<<<blocks, 256>>>(in, out, rows_given, columns);
}
int main(int argc, char** argv) {
    float *in = nullptr, *out = nullptr;
    launch(in, out, atoi(argv[1]), atoi(argv[2]));
}
"""
BLOCKS = "(rows_given + 7) / 8"
GUARDED = ("    if (row >= rows) return;\n", "")
LOOPED = [
    ("    const int row = blockIdx.x * 8 + threadIdx.x / 32;\n    if (row >= rows) return;\n", ""),
    (
        "    float sum = 0;",
        "for (int row = blockIdx.x * 8 + threadIdx.x / 32; row < rows; row += gridDim.x * 8) {\n float sum = 0;",
    ),
    ("sum);\n}", "sum);\n}\n}"),
]  # fmt: skip


def _file(*edits: tuple[str, str]) -> File:
    text = PROGRAM
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    source = SourceText(text)
    return File(source, parse(source, "k.cu"))


@pytest.mark.parametrize(
    "blocks",
    [
        "rows_given / 8",
        "rows_given >> 3",
        "rows_given / 4",
        "max(1, rows_given / 8)",
        "(rows_given + 3) / 8",
        "(rows_given + 255) / 1792",
        # of fewer than eight rows none
        "rows_given / 8 + (rows_given > 8)",
        "rows_given / 8 + (rows_given >= 16)",
    ],
)
def test_a_grid_that_rounds_down_leaves_a_rest(blocks: str) -> None:
    before, after = _file(), _file((BLOCKS, blocks), GUARDED)
    assert "leaves a rest of rows" in why_rest_left(before, after) == why_not_followed(before, after)


@pytest.mark.parametrize(
    "blocks",
    [
        "up(rows_given, 8)",
        "(rows_given + 3) / 4",
        "rows_given",
        "(rows_given - 1) / 8 + 1",
        "rows_given / 8 + 1",
        "((rows_given + 255) / 256 + 6) / 7",
        "rows_given / 8 + (rows_given % 8 != 0)",
        "rows_given / 8 + (0 < rows_given % 8)",
        "rows_given / 8 + 1 - (rows_given % 8 == 0)",
        "rows_given / 8 + (rows_given % 8 >= 1)",
        "rows_given / 8 + (1 <= rows_given % 8)",
        "up(rows_given, 17 * 256)",
    ],
)
def test_one_that_does_all_leaves_none(blocks: str) -> None:
    assert why_rest_left(_file(), _file((BLOCKS, blocks))) == ""


@pytest.mark.parametrize("threads", [32, 64, 96, 192, 256, 512, 1000, 1024])
def test_a_block_that_does_some_in_part_leaves_none(threads: int) -> None:
    """As where each row has 17 threads."""
    before = _file((BLOCKS, "(rows_given * 17 + 127) / 128"))
    up = _file((BLOCKS, f"(rows_given * 17 + {threads - 1}) / {threads}"))
    assert why_rest_left(before, up) == ""
    down = _file((BLOCKS, f"rows_given * 17 / {threads}"), GUARDED)
    assert "leaves a rest of rows" in why_rest_left(before, down)


def test_what_no_guard_lets_anything_reach_is_no_rest() -> None:
    """A rim that stays as it is: of `n` rows those up to `n - 1` are worked on."""
    short, rim = (
        "(rows_given - 1 + 7) / 8",
        ("if (row >= rows) return;", "if (row >= rows - 1 || row < 1) return;"),
    )
    assert why_rest_left(_file(rim), _file(rim, (BLOCKS, short))) == ""
    assert (
        why_rest_left(
            _file(("if (row >= rows) return;", "if (rows - 1 <= row) return;")), _file((BLOCKS, short))
        )
        == ""
    )
    assert "leaves a rest of rows" in why_rest_left(
        _file(rim), _file(rim, (BLOCKS, "(rows_given - 2 + 7) / 8"))
    )
    for other in (
        "if (row >= rows) return;",
        "if (row >= rows - 1 && row != rows) return;",
        "if (row > rows - 1) return;",
    ):
        asked = ("if (row >= rows) return;", other)
        assert "leaves a rest of rows" in why_rest_left(_file(asked), _file(asked, (BLOCKS, short)))


def test_of_a_grid_that_nobody_can_read_nothing_is_known() -> None:
    before, floats = _file(), (BLOCKS, "(int)(rows_given / 8.0f)")
    assert "nothing tells whether the edit's grid does all of rows" in why_rest_left(before, _file(floats))
    assert why_rest_left(before, _file(floats, *LOOPED)) == ""
    assert why_rest_left(_file(floats), _file((BLOCKS, "(int)(rows_given / 4.0f)"))) == ""


def test_a_loop_does_the_rest_and_what_the_program_leaves_is_its_own() -> None:
    assert why_rest_left(_file(), _file((BLOCKS, "rows_given / 8"), *LOOPED)) == ""
    down = _file((BLOCKS, "rows_given / 8"))
    assert why_rest_left(down, _file((BLOCKS, "rows_given / 4"))) == ""
    assert why_rest_left(down, down) == ""


def test_blocks_that_become_fewer_with_a_number_leave_no_rest_of_it() -> None:
    alone = (
        "    for (int c = threadIdx.x % 32; c < columns; c += 32) sum",
        "    const int c = threadIdx.x % 32;\n    if (c < columns) sum",
    )
    few = ("rows<<<blocks,", "rows<<<dim3(blocks, min(blocks, 528 / up(columns, 256) + 1)),")
    assert why_rest_left(_file(alone), _file(alone, few)) == ""
    assert "leaves a rest of rows" in why_rest_left(
        _file(alone), _file(alone, few, (BLOCKS, "rows_given / 8"), GUARDED)
    )
