# SPDX-License-Identifier: Apache-2.0
"""Candidates that rest on all rows being alike: as wide, as long, and with something in each part of a row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.host_card.judging import candidate, compared_thoroughly, on_software_card

from warplens.measure.judge import Judge

pytestmark = [pytest.mark.compiler, pytest.mark.thorough, pytest.mark.slow]
SOURCE = Path(__file__).parent / "programs" / "parcels.cu"
_ROUND_BY_ROUND = """    for (int i = begin; i < end; ++i) {
        a = (a + bytes[i]) % 65521u;
        b = (b + a) % 65521u;
    }
"""
#: Sums of so many bytes at most, before a remainder is taken: 32 bits hold those of 5552.
_IN_PARTS = """    for (int i = begin; i < end;) {
        const int stop = min(end - i, PART) + i;
        for (; i < stop; ++i) {
            a += bytes[i];
            b += a;
        }
        a %= 65521u;
        b %= 65521u;
    }
"""
_TWO_PASSES = """    float most = -INFINITY, sum = 0.0f;
    for (int k = t; k < length; k += 32) most = fmaxf(most, own[k]);
    for (int by = 16; by > 0; by /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, by));
    for (int k = t; k < length; k += 32) sum += expf(own[k] - most);
"""
_ONE_PASS = """    float mine = t < length ? own[t] : -3e38f, sum = t < length ? 1.0f : 0.0f;
    for (int k = t + 32; k < length; k += 32) {
        const float v = own[k], more = fmaxf(mine, v);
        sum = sum * expf(mine - more) + expf(v - more);
        mine = more;
    }
    float most = mine;
    for (int by = 16; by > 0; by /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, by));
    sum *= expf(mine - most);
"""
#: By the condition: what is right, and what is in its place.
WRONG = {
    "rows of other widths": (
        "    if ((bit & 31) + width > 32) atomicOr(&packed[(bit >> 5) + 1], value >> (32 - (bit & 31)));\n",
        "",
    ),
    "chunks of two parts, of the largest bytes": (_ROUND_BY_ROUND, _IN_PARTS.replace("PART", "8192")),
    "parts of rows that are masked": (_TWO_PASSES, _ONE_PASS),
}
HONEST = {
    "sums that fit": (_ROUND_BY_ROUND, _IN_PARTS.replace("PART", "4096")),
    "masked parts left out": (
        _TWO_PASSES,
        _ONE_PASS.replace(
            "sum = sum * expf(mine - more) + expf(v - more);",
            "if (v != -INFINITY) sum = sum * expf(mine - more) + expf(v - more);",
        ).replace(
            "sum = t < length ? 1.0f : 0.0f;", "sum = t < length && own[t] != -INFINITY ? 1.0f : 0.0f;"
        ),
    ),
}


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Judge]:
    yield from on_software_card(SOURCE, "parcels", monkeypatch, tmp_path)


def test_rows_that_are_not_alike_are_met(judge: Judge) -> None:
    given = [candidate(SOURCE, name, *edit) for name, edit in (WRONG | HONEST).items()]
    found = {one.candidate: (one.state, one.reason) for one in compared_thoroughly(judge, given)}
    assert {name for name, (state, _) in found.items() if state in ("wrong", "unproven")} == set(WRONG), found
