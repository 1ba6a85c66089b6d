# SPDX-License-Identifier: Apache-2.0
"""Every module of the rooms that read SASS and model the machine is used by a test of that room."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools" / "warplens_tools"
TESTS = Path(__file__).parent


@pytest.mark.parametrize("room", ["sass", "machine"])
def test_every_module_has_a_test(room: str) -> None:
    written = "".join(p.read_text("utf-8") for p in (TESTS / room).glob("*.py"))
    imported = set(re.findall(rf"warplens_tools\.{room}\.(\w+)", written))
    imported |= {name for line in re.findall(rf"from warplens_tools\.{room} import (.+)", written)
                 for name in re.findall(r"\w+", line)}  # fmt: skip
    # What a view makes of a kernel is asked of the view.
    asked = (
        {"demand", "launch_cost", "constants", "conflicts", "contention", "reuse"}
        if room == "machine"
        else set()
    )
    named = {p.stem.removeprefix("test_") for p in (TESTS / room).glob("test_*.py")}
    assert {p.stem for p in (TOOLS / room).glob("*.py")} - {"__init__"} - imported - (asked & named) == set()
