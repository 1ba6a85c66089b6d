# SPDX-License-Identifier: Apache-2.0
"""Candidates that are right on this program's inputs, and wrong under one condition that they never meet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.host_card.judging import candidate, compared_thoroughly, on_software_card

from warplens.measure.judge import Judge

pytestmark = [pytest.mark.compiler, pytest.mark.thorough, pytest.mark.slow]
SOURCE = Path(__file__).parent / "programs" / "scores.cu"
#: By the condition: what is right, and what is in its place.
WRONG = {
    "a row of one value": ("count > 1 ? squares", "count > 0 ? squares"),
    "a value at the limit": ("reached += x >= limit;", "reached += x > limit;"),
    "a row that is none": (
        "other < rows ? in[size_t(other) * width] : -1.0f",
        "in[size_t(other) * width]",
    ),
    "numbers whose squares overflow": (
        "hypotf(mine[0], mine[1])",
        "sqrtf(mine[0] * mine[0] + mine[1] * mine[1])",
    ),
    "half of it nowhere": ("1.0f / (1.0f + fabsf(mine[0]) / half)", "half / (half + fabsf(mine[0]))"),
    "a change downwards": ("changes[row] / 8", "changes[row] >> 3"),
    "rows shorter than a warp": (
        "    for (int c = 0; c < width; ++c) {\n        const float x = mine[c];",
        "#pragma unroll 8\n    for (int c = 0; c < (width < 32 ? 32 : width); ++c) {\n        const float x = mine[c];",
    ),
}
HONEST = (
    "    for (int c = 0; c < width; ++c)\n        if (mine[c]",
    "#pragma unroll 4\n    for (int c = 0; c < width; ++c)\n        if (mine[c]",
)


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Judge]:
    yield from on_software_card(SOURCE, "score", monkeypatch, tmp_path)


def test_conditions_that_the_program_never_meets_are_met(judge: Judge) -> None:
    given = [candidate(SOURCE, name, *edit) for name, edit in WRONG.items()]
    right = candidate(SOURCE, "right", *HONEST)
    found = {one.candidate: (one.state, one.reason) for one in compared_thoroughly(judge, [right, *given])}
    assert found["right"][0] == "right", found["right"]
    caught = {name for name, (state, _) in found.items() if state in ("wrong", "unproven")}
    assert caught == set(WRONG), found
