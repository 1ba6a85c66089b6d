# SPDX-License-Identifier: Apache-2.0
"""The batches that are scored with no GPU: smaller programs, which take every candidate's edits."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.gpu.batches import Batch
from tests.host_card.score import shrink_into, shrunk, smaller_programs


@pytest.mark.parametrize("name", sorted({program.partition("/")[0] for program in smaller_programs()}))
def test_smaller_programs_take_every_edit(name: str, tmp_path: Path) -> None:
    shrink_into(tmp_path, name)
    batch = msgspec.toml.decode((tmp_path / f"{name}.toml").read_bytes(), type=Batch)
    assert len(batch.candidate) > 20
    for entry in batch.candidate:
        program = entry.program or batch.program
        assert program in smaller_programs()
        text = (tmp_path / program).read_text()
        assert all(old in text for old, _ in entry.edits), entry.name


def test_a_size_that_is_not_there_once_is_an_error() -> None:
    assert shrunk("n = 1 << 20;", [("1 << 20", "1 << 4")]) == "n = 1 << 4;"
    with pytest.raises(ValueError, match="is there 2 times"):
        shrunk("1 << 20; 1 << 20;", [("1 << 20", "1 << 4")])
