"""The managed environment: NVIDIA's compiler wheels in a folder of Warplens' own."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def warplens_home() -> Path:
    """The folder for what Warplens installs: `WARPLENS_HOME`, else the user's data folder."""
    return Path(os.environ.get("WARPLENS_HOME") or platformdirs.user_data_dir("warplens", appauthor=False))


def managed_toolkit() -> Path | None:
    """The toolkit folder inside the managed environment, or None where it was not made."""
    folder = warplens_home() / "toolchain" / "current"
    return folder if folder.is_dir() else None
