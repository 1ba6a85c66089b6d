# SPDX-License-Identifier: Apache-2.0
"""Some random files; `tests/bench/fuzz_fix.py` takes a thousand."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.cli.fuzz import fuzz


@pytest.mark.slow
@pytest.mark.thorough
def test_random_files_keep_every_byte_outside_an_edit(tmp_path: Path) -> None:
    outcomes = fuzz(tmp_path, 80)
    assert [o for o in outcomes if o.wrong] == []
    assert sum(o.edits for o in outcomes) > 80
