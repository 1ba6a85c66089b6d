# SPDX-License-Identifier: Apache-2.0
"""Work folders go with who made them."""

from __future__ import annotations

from pathlib import Path

from warplens_tools.process.scratch import remove_own, scratch_folder


def test_a_folder_and_its_lock_are_gone_at_the_end(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as folder:
        (folder / "a").write_text("a")
        assert len(list(tmp_path.iterdir())) == 2
    assert not list(tmp_path.iterdir())


def test_own_folders_are_removed_while_they_are_in_use_and_others_are_left(tmp_path: Path) -> None:
    (tmp_path / "somebody's").mkdir()
    with scratch_folder(tmp_path) as folder:
        (folder / "a").write_text("a")
        remove_own()
        assert [p.name for p in tmp_path.iterdir()] == ["somebody's"]
    remove_own()
    assert [p.name for p in tmp_path.iterdir()] == ["somebody's"]
