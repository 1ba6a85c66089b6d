# SPDX-License-Identifier: Apache-2.0
"""The build folders of judges."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil

_FOLDERS = "warplens-judge-"


def judge_folder() -> Path:
    """A fresh folder for a judge of this process; those of processes that were killed go."""
    remove_abandoned()
    return Path(tempfile.mkdtemp(prefix=f"{_FOLDERS}{os.getpid()}-"))


def remove_abandoned() -> None:
    """Remove the build folders of judges whose process was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDERS}*-*"):
        pid = folder.name.removeprefix(_FOLDERS).split("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
