# SPDX-License-Identifier: Apache-2.0
"""Finding the units that include a header."""

from __future__ import annotations

from pathlib import Path

from warplens_tools.cuda.project import Project


def write(root: Path, files: dict[str, str]) -> list[Path]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [root / name for name in files]


def names(root: Path, header: str, files: list[Path], folders: tuple[str, ...] = ()) -> list[str]:
    found = Project(files, [root / folder for folder in folders]).units_including(root / header)
    return [path.relative_to(root).as_posix() for path in found]


def test_direct_and_indirect_includes_nearest_first(tmp_path: Path) -> None:
    files = write(
        tmp_path,
        {
            "src/a.cu": '#include "mid.cuh"\n',
            "src/b.cu": '  # include "../kernels/k.cuh"\nint main() {}\n',
            "src/mid.cuh": '#include "../kernels/k.cuh"\n',
            "src/other.cu": '#include "unrelated.cuh"\n// "k.cuh"\n',
            "src/host.cpp": '#include "mid.cuh"\n',
            "kernels/k.cuh": "#pragma once\n",
        },
    )
    assert names(tmp_path, "kernels/k.cuh", files) == ["src/b.cu", "src/a.cu"]


def test_include_folders_and_path_ends(tmp_path: Path) -> None:
    files = write(
        tmp_path,
        {
            "app/a.cu": "#include <lib/k.cuh>\n",
            "app/b.cu": '#include "k.cuh"\n',
            "include/lib/k.cuh": "",
            "vendor/k.cuh": "",
        },
    )
    assert names(tmp_path, "include/lib/k.cuh", files, ("include",)) == ["app/a.cu"]
    assert names(tmp_path, "include/lib/k.cuh", files) == ["app/a.cu"]
    # Two files are called k.cuh: without its folder b.cu may mean either.
    assert names(tmp_path, "vendor/k.cuh", files) == []
    assert names(tmp_path, "vendor/k.cuh", files, ("vendor",)) == ["app/b.cu"]


def test_loops_and_missing_files(tmp_path: Path) -> None:
    files = write(
        tmp_path, {"a.cu": '#include "x.cuh"\n', "x.cuh": '#include "y.cuh"\n', "y.cuh": '#include "x.cuh"\n'}
    )
    (tmp_path / "loop.cu").symlink_to(tmp_path / "loop.cu")
    (tmp_path / "gone.cu").symlink_to(tmp_path / "nothing")
    (tmp_path / "again.cu").symlink_to(tmp_path / "a.cu")
    files += [tmp_path / "loop.cu", tmp_path / "gone.cu", tmp_path / "again.cu", tmp_path]
    assert names(tmp_path, "y.cuh", files) == ["a.cu"]
    assert names(tmp_path, "missing.cuh", files) == []
