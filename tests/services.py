# SPDX-License-Identifier: Apache-2.0
"""Services that tests of one process share: each reads the files around its folder once."""

from __future__ import annotations

import functools
from pathlib import Path

from tests.standard import standard_of

from warplens.service.service import Service


def service_for(folder: Path, *paths: Path) -> Service:
    """For the programs of a folder, compiled by the standard that they ask for."""
    return _service(folder, standard_of(*(path.read_text("utf-8") for path in paths)))


@functools.cache
def _service(folder: Path, flags: tuple[str, ...]) -> Service:
    return Service(folder, editor={"flags": list(flags)})
