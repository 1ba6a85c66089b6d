# SPDX-License-Identifier: Apache-2.0
"""Constant tables whose lanes read different words."""

from __future__ import annotations

import pytest
from tests.tools.machine.kernels import view_of

from warplens_tools.arch.load import load_architecture
from warplens_tools.machine.constants import ConstantReads

SOURCE = """\
__constant__ float table[{size}];
__global__ void k(const int *at, float *o)
{{
    int i = threadIdx.x;
    o[i] = table[{index}];
}}
void f(const int *a, float *o) {{ k<<<1, 256>>>(a, o); }}
"""
LISTING = "S2R R0, SR_TID.X\nLDC R4, c[0x3][R0]\nSTG.E desc[UR4][R6.64], R4\nEXIT"


def reads(index: str, size: int = 64) -> list[tuple[float, bool]]:
    found = view_of(SOURCE.format(index=index, size=size), LISTING, (4, 5, 5, 6)).contention.constants
    return [(c.words, c.exact) for c in found.divergent]


def test_lanes_that_read_one_word_do_not_diverge() -> None:
    assert reads("3") == []
    assert reads("i / 32") == []


def test_an_index_of_the_lane_gives_exact_words_and_data_expected_ones() -> None:
    assert reads("i % 64") == [(32.0, True)]
    ((words, exact),) = reads("at[i]")
    assert 20.0 < words < 32.0
    assert not exact


def test_a_table_beyond_the_cache_takes_longer() -> None:
    small, large = (
        view_of(SOURCE.format(index="at[i]", size=n), LISTING, (4, 5, 5, 6)).contention.constants
        for n in (512, 4096)
    )
    assert large.cycles > 2.0 * small.cycles > 0.0


def test_what_only_sass_shows_counts_a_word_a_lane() -> None:
    view = view_of(listing=LISTING)
    constants = view.contention.constants
    assert constants.divergent == ()
    assert constants.hidden == (1,)
    assert constants.cycles == 32 * view.gpu.costs.constant_word


def test_lanes_that_share_a_row_part_ways_within_it() -> None:
    """`row * width + column`, and a table of rows: at most as many words as a row has."""
    ((whole, _),) = reads("at[i] * 8 + at[i + 1]")
    assert whole > 20.0
    for index in ("blockIdx.x * 8 + at[i]", "8 * (blockIdx.x + 1) + at[i]", "at[i] + (blockIdx.x * 8)"):
        ((words, exact),) = reads(index)
        assert 7.0 < words <= 8.0
        assert not exact
    rows = SOURCE.replace("[{size}]", "[8][8]").format(index="blockIdx.x][at[i]")
    (read,) = view_of(rows, LISTING, (4, 5, 5, 6)).contention.constants.divergent
    assert 7.0 < read.words <= 8.0


#: A row a warp of a square block, word by word; the kernel is passed through a macro that must not hide the table.
ROWS = """\
#define REAL float
__constant__ REAL table[{size}];
__global__ void k(REAL *o)
{{
    float sum = 0.0f;
    for (int j = 0; j < 32; ++j) sum += table[{index}];
    o[threadIdx.y * 32 + threadIdx.x] = sum;
}}
void f(float *o) {{ k<<<132, dim3(32, {rows})>>>(o); }}
"""
WALK = "S2R R0, SR_TID.Y\n.L:\nLDC R4, c[0x3][R0]\n@P0 BRA `(.L)\nSTG.E desc[UR4][R6.64], R4\nEXIT"


def rows_read(index: str = "threadIdx.y * 32 + j", size: int = 4096, rows: int = 32) -> ConstantReads:
    source = ROWS.format(index=index, size=size, rows=rows)
    return view_of(source, WALK, (5, 6, 6, 7, 8)).contention.constants


def test_a_row_a_warp_is_no_word_a_lane() -> None:
    found = rows_read()
    assert found.divergent == () == found.hidden
    assert found.cycles == 0.0


def test_warps_at_more_lines_than_the_cache_holds_miss_each_word() -> None:
    costs = load_architecture("sm_90").costs
    assert rows_read().evicted == pytest.approx(32 * costs.constant_miss * (1 - 2048 / 16384))
    assert rows_read(rows=16).evicted == 0.0, "16 lines stay"
    assert rows_read(index="j").evicted == 0.0, "all warps are at one line"
    assert rows_read(size=512).evicted == 0.0, "the cache holds the table"


def test_words_of_one_line_miss_once_and_not_at_all_elsewhere() -> None:
    near, far = (rows_read(f"threadIdx.x * {step} + j", size=16384, rows=1) for step in (1, 16))
    assert [c.lines for c in (*near.divergent, *far.divergent)] == [2.0, 32.0]
    assert near.cycles < far.cycles / 4
    assert near.held == far.held < near.cycles
