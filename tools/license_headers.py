# SPDX-License-Identifier: Apache-2.0
"""Puts the licence's line at the head of every source file: `python tools/license_headers.py [--check]`.

Programs under `tests/` and `examples/`, and recorded data, keep their lines: tests count them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
LICENSE = "SPDX-License-Identifier: Apache-2.0"
_MARKS = {
    ".py": "#", ".sh": "#", ".lua": "--", ".ts": "//", ".mjs": "//",
    ".cpp": "//", ".h": "//", ".cu": "//", ".cuh": "//",
}  # fmt: skip
_ROOMS = ("server", "tools", "cutlass_index", "extension", "docs", "tests")
#: In these only tests and tools of ours are marked, not the programs that they are tried on.
_PROGRAMS = ("tests/data/", "tests/gpu/programs/", "tests/gpu/host/")
_PROGRAM_SUFFIXES = (".cu", ".cuh", ".cpp", ".h")


def marked_files() -> list[Path]:
    """Every source file of ours that git knows, or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *_ROOMS],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\n")  # fmt: skip
    return [ROOT / name for name in listed if name and _is_ours(name) and (ROOT / name).is_file()]


def _is_ours(name: str) -> bool:
    suffix = PurePosixPath(name).suffix
    program = name.startswith("tests/") and suffix in _PROGRAM_SUFFIXES
    return suffix in _MARKS and not program and not name.startswith(_PROGRAMS)


def with_license(text: str, suffix: str) -> str:
    """The text with the licence's line first, or second below a `#!`."""
    line = f"{_MARKS[suffix]} {LICENSE}\n"
    if has_license(text):
        return text
    if text.startswith("#!"):
        first, _, rest = text.partition("\n")
        return f"{first}\n{line}{rest}"
    return line + text


def has_license(text: str) -> bool:
    """Whether one of the first two lines names the licence."""
    return any(LICENSE in line for line in text.split("\n", 2)[:2])


def main() -> int:
    """Mark what is unmarked, or with --check name it."""
    bare = [path for path in marked_files() if not has_license(path.read_text(encoding="utf-8"))]
    for path in bare:
        if "--check" in sys.argv:
            sys.stderr.write(f"{path.relative_to(ROOT)} does not name its licence\n")
        else:
            path.write_text(with_license(path.read_text(encoding="utf-8"), path.suffix), encoding="utf-8")
    return int(bool(bare) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
