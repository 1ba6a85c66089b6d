# SPDX-License-Identifier: Apache-2.0
"""Which files a command means."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.service.files import excluded, expand
from warplens_tools.errors import InputError


def test_a_folder_stands_for_its_cuda_files_and_a_file_for_itself(tmp_path: Path) -> None:
    for name in ("b.cu", "a.cuh", "c.cpp", "sub/d.cu", "node_modules/e.cu", ".cache/f.cu"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    found = expand([tmp_path, tmp_path / "c.cpp"], ["**/node_modules/**"])
    assert [p.relative_to(tmp_path).as_posix() for p in found] == ["a.cuh", "b.cu", "sub/d.cu", "c.cpp"]


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "broken.cu").symlink_to(tmp_path / "nowhere.cu")
    assert expand([tmp_path], ()) == [tmp_path / "k.cu"]


def test_what_does_not_exist_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        expand([tmp_path / "k.cu"], ())


@pytest.mark.parametrize(
    ("path", "glob", "out"),
    [
        ("/w/build/x.cu", "build/**", True),
        ("/w/a/build/x.cu", "**/build/**", True),
        ("/w/rebuild/x.cu", "**/build/**", False),
        ("/w/a/x.generated.cu", "*.generated.cu", True),
        ("/w/a/x.cu", "*.generated.cu", False),
    ],
)
def test_globs(path: str, glob: str, out: bool) -> None:
    assert excluded(Path(path), [glob]) is out
