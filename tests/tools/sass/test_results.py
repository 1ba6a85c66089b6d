# SPDX-License-Identifier: Apache-2.0
"""Results and sources of instructions, and the registers that may change."""

from __future__ import annotations

import pytest
from tests.tools.sass.written import code

from warplens_tools.sass.results import destinations, registers_written, sources


@pytest.mark.parametrize(
    ("line", "written", "read"),
    [
        ("IADD3 R4, R6, 0x1, RZ", ["R4"], ["R6", "0x1", "RZ"]),
        ("LDG.E.64 R4, desc[UR4][R2.64]", ["R4", "R5"], None),
        ("IMAD.WIDE R4, R6, 0x4, R8", ["R4", "R5"], ["R6", "0x4", "R8"]),
        ("STG.E desc[UR4][R2.64], R8", [], None),
        ("ISETP.GE.AND P0, PT, R7, UR4, PT", [], None),
    ],
)
def test_results(line: str, written: list[str], read: list[str] | None) -> None:
    (x,) = code(line)
    assert registers_written(x)[: len(written)] == written
    assert bool(destinations(x)) == (bool(written) or line.startswith("ISETP"))
    if read is not None:
        assert list(sources(x)) == read
