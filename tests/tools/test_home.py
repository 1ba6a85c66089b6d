# SPDX-License-Identifier: Apache-2.0
"""Where Warplens keeps what it installs."""

from __future__ import annotations

from pathlib import Path

from warplens_tools.home import checkout_home, warplens_home


def test_a_checkout_that_make_set_up_is_its_own_home(tmp_path: Path) -> None:
    assert checkout_home(tmp_path) is None
    (tmp_path / ".tools" / "warplens").mkdir(parents=True)
    assert checkout_home(tmp_path) is None, "a folder of that name elsewhere is nobody's"
    (tmp_path / "Makefile").touch()
    assert checkout_home(tmp_path) == tmp_path / ".tools" / "warplens"


def test_the_variable_counts_before_all(tmp_path: Path) -> None:
    assert warplens_home({"WARPLENS_HOME": str(tmp_path)}) == tmp_path
