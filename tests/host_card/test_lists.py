# SPDX-License-Identifier: Apache-2.0
"""Candidates that are right for data of the program's kind: keys whose digits are random, stamps that are all there,
places within a row, neighbours without bonds, atoms of one kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.host_card.judging import candidate, compared_thoroughly, on_software_card

from warplens.measure.judge import Judge

pytestmark = [pytest.mark.compiler, pytest.mark.thorough, pytest.mark.slow]
SOURCE = Path(__file__).parent / "programs" / "lists.cu"
_COUNT = "    for (int k = group; k < group + 8; ++k) none += (keys[k] >> 16 & 15) == 0;\n"
#: By the condition: what is right, and what is in its place.
WRONG = {
    "a digit that most keys share": (
        _COUNT,
        "    if (((keys[group] | keys[group + 1] | keys[group + 2] | keys[group + 3]) >> 16 & 15) == 0) none = 8;\n"
        "    else\n    " + _COUNT,
    ),
    "a stamp that is missing": (
        "stamp == LLONG_MIN ? -1.0f : float(stamp / 86400 % 7)",
        "float(stamp / 86400 % 7)",
    ),
    "a place left of the row": ("left = floorf(at)", "left = truncf(at)"),
    "a bond": ("bonds.scale[entry >> 30]", "bonds.scale[0]"),
    "another kind": ("table[kinds[i]]", "table[kinds[i] > 3]"),
}
HONEST = (
    _COUNT,
    "#pragma unroll 2\n    for (int k = group + 7; k >= group; --k) none += (keys[k] & 0xf0000u) ? 0 : 1;\n",
)


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Judge]:
    yield from on_software_card(SOURCE, "collect", monkeypatch, tmp_path)


def test_data_that_the_program_never_has_is_drawn(judge: Judge) -> None:
    given = [candidate(SOURCE, name, *edit) for name, edit in WRONG.items()]
    right = candidate(SOURCE, "right", *HONEST)
    found = {one.candidate: (one.state, one.reason) for one in compared_thoroughly(judge, [right, *given])}
    assert found["right"][0] == "right", found["right"]
    caught = {name for name, (state, _) in found.items() if state == "wrong"}
    assert caught == set(WRONG), found
