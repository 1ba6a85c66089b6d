# SPDX-License-Identifier: Apache-2.0
"""The folder for what Warplens installs and remembers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import platformdirs

_CHECKOUT = Path(__file__).parents[2]


def warplens_home(environment: Mapping[str, str] = os.environ) -> Path:
    """`WARPLENS_HOME`; else a checkout's own, where `make` put one and this package runs from it; else the user's."""
    chosen = environment.get("WARPLENS_HOME")
    if chosen:
        return Path(chosen).expanduser()
    return checkout_home(_CHECKOUT) or Path(platformdirs.user_data_dir("warplens", appauthor=False))


def checkout_home(root: Path) -> Path | None:
    """What `make` installs into in a checkout of this repository; None where `root` is none, or nothing is there."""
    home = root / ".tools" / "warplens"
    return home if (root / "Makefile").is_file() and home.is_dir() else None
