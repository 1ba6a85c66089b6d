# SPDX-License-Identifier: Apache-2.0
"""Changed files as one patch of bytes, whatever their encoding, that `patch -p1` and `git apply` take."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

_NO_NEWLINE = b"\n\\ No newline at end of file\n"
_ESCAPES = {
    7: b"\\a",
    8: b"\\b",
    9: b"\\t",
    10: b"\\n",
    11: b"\\v",
    12: b"\\f",
    13: b"\\r",
    34: b'\\"',
    92: b"\\\\",
}


def patch_root(paths: Sequence[Path], here: Path) -> Path:
    """The folder that names in a patch start from: `here` where it holds all files, else what holds both."""
    folders = [os.path.realpath(here), *(os.path.dirname(os.path.realpath(path)) for path in paths)]  # noqa: PTH120
    return Path(os.path.commonpath(folders))


def patch_of(path: Path, before: bytes, after: bytes, root: Path) -> bytes:
    """The unified diff of one file; b"" where nothing changed.

    The name is that of the file itself, not of a link to it, from `root` on: patch refuses names that are
    absolute, lead upward, or are links.
    """
    name = os.fsencode(Path(os.path.realpath(path)).relative_to(root))
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        _lines(before),
        _lines(after),
        fromfile=_quoted(b"a/" + name),
        tofile=_quoted(b"b/" + name),
    )
    return b"".join(line if line.endswith(b"\n") else line + _NO_NEWLINE for line in lines)


def _lines(data: bytes) -> list[bytes]:
    """As patch counts them: only a line feed ends one."""
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _quoted(name: bytes) -> bytes:
    """A name as git writes it: odd ones in C quotes, one with blanks ended by a tab."""
    if any(byte < 32 or byte in (34, 92, 127) for byte in name):
        inner = b"".join(
            _ESCAPES.get(byte) or (b"\\%03o" % byte if byte < 32 or byte == 127 else bytes([byte]))
            for byte in name
        )
        return b'"' + inner + b'"'
    return name + b"\t" if b" " in name else name
