# SPDX-License-Identifier: Apache-2.0
"""Which file is the current index of a corpus."""

from __future__ import annotations

from pathlib import Path

from warplens_cutlass.corpus import Corpus, index_folder
from warplens_cutlass.store import schema

CURRENT = "current"


def current_index(corpus: Corpus) -> Path | None:
    """The current generation, where there is one of this schema."""
    folder = index_folder(corpus)
    try:
        path = folder / (folder / CURRENT).read_text().strip()
        with path.open("rb") as file:
            header = file.read(64)
    except (OSError, UnicodeDecodeError):
        return None
    version = int.from_bytes(header[60:64], "big") if header.startswith(b"SQLite format 3\0") else -1
    return path if version == schema.SCHEMA_VERSION else None


def current_name(folder: Path) -> str:
    """The name in the file `current`; "" where there is none."""
    try:
        return (folder / CURRENT).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
