# SPDX-License-Identifier: Apache-2.0
"""Between document URIs and paths."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname


def to_path(uri: str) -> Path | None:
    """The path of a `file:` URI; None for any other scheme, which has no file behind it."""
    parts = urlsplit(uri)
    if parts.scheme.lower() != "file":
        return None
    share = f"//{parts.netloc}" if parts.netloc not in ("", "localhost") else ""
    return Path(share + url2pathname(parts.path))


def from_path(path: Path) -> str:
    """The `file:` URI of an absolute path."""
    return path.as_uri()


def key(uri: str) -> str:
    """One spelling for every way a client may write the same URI (editors differ in what they escape)."""
    path = to_path(uri)
    return unquote(uri) if path is None else str(path)


def display_name(uri: str) -> str:
    """The file's name, for messages."""
    path = to_path(uri)
    return path.name if path is not None else unquote(uri).rsplit("/", 1)[-1]
