# SPDX-License-Identifier: Apache-2.0
"""The SASS of a kernel as one object: weights, lines, cycles."""

from __future__ import annotations

from tests.tools.sass.written import GPU, sass_of

from warplens_tools.cuda.parse import parse
from warplens_tools.sass.listing import TRIPS_PER_LEVEL, Sass
from warplens_tools.text import SourceText

SOURCE = "__global__ void k(float *a)\n{\n    a[0] = 1;\n    for (;;)\n        a[1] += 2;\n}\n"
LOOP = """
    S2R R0, SR_TID.X
    .L:
    LDG.E R4, desc[UR4][R2.64]
    FADD R4, R4, 2
    STG.E desc[UR4][R2.64], R4
    @P0 BRA `(.L)
    EXIT
"""


def looped() -> Sass:
    return sass_of(LOOP, 3, 5, 5, 5, 4, source=SOURCE)


def test_what_stands_in_a_loop_weighs_more() -> None:
    sass = looped()
    assert sass.weights == (1.0, *[TRIPS_PER_LEVEL] * 4, 1.0)
    assert sass.weigh([0, 1]) == 1.0 + TRIPS_PER_LEVEL
    assert sass.without([1])[:3] == [1.0, 0.0, TRIPS_PER_LEVEL]


def test_instructions_are_found_by_kind_and_line() -> None:
    sass = looped()
    assert sass.lines == (3, 5, 5, 5, 4, None)
    assert sass.where(lambda x: x.opcode == "FADD") == [2]
    assert sass.on_line(5) == [1, 2, 3]
    assert sass.global_on(5) == [1, 3]
    assert sass.in_loops_on(3) == []
    assert sass.in_loops_on(5, lambda x: x.opcode == "LDG") == [1]
    assert [x.opcode for x in sass.through_line(4)] == ["BRA"]
    assert sass.hottest_line(range(6)) == 5
    assert sass.hottest_line([]) is None


def test_clocks_follow_the_weights() -> None:
    sass = looped()
    assert sass.cycles == sass.cycles_at(sass.weights)
    assert sass.cycles_of({2: 1.0})["fp32"] == 32 / GPU.rates.fp32_fma
    assert sass.cycles["fp32"] == TRIPS_PER_LEVEL * 32 / GPU.rates.fp32_fma
    assert sass.loaded_bytes == 4


def test_what_feeds_and_what_differs() -> None:
    sass = sass_of("S2R R0, SR_TID.X\nIADD3 R2, R0, 1, RZ\nSTG.E desc[UR4][R6.64], R2\nEXIT")
    assert sass.lane_dependent == {0, 1, 2}
    assert sass.feeding([2]) == {1}


def test_without_instructions_it_is_empty_and_false() -> None:
    (kernel,) = parse(SourceText(SOURCE), "k.cu").kernels
    sass = Sass(None, kernel, "k.cu", GPU, None)
    assert not sass
    assert (sass.weights, sass.lines, sass.patterns, sass.loaded_bytes) == ((), (), (), 0)
    assert sass.hottest_line([]) is None
    assert sass.cycles == {"issue": 0.0}
