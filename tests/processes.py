# SPDX-License-Identifier: Apache-2.0
"""Processes that a test looks for among those of others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import psutil


def named(word: str, processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those with a word in their name, and none that has ended since it was listed."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if word in process.name():
                found.append(process)
    return found
