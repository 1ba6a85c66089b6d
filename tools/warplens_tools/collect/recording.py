# SPDX-License-Identifier: Apache-2.0
"""Launches that were profiled once, kept as packed JSON: small enough for a repository, read without Nsight Compute.

A recording holds what Warplens itself asks Nsight Compute for, whatever else the report had: the metrics of
`collect.metrics.NEEDS`, counters and stall samples of every instruction, the card's attributes, the source of
the files it was built from, and Nsight Compute's own advice.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import msgspec

from warplens_tools.collect.profiled import ProfiledLaunch
from warplens_tools.decode import from_json
from warplens_tools.errors import InputError

#: End of a recording's name.
SUFFIX = ".json.gz"
#: An unpacked recording larger than this is none of ours: a thousand instructions take about 300 KB.
MAX_BYTES = 64 * 1024 * 1024


def read_recording(path: Path) -> tuple[ProfiledLaunch, ...]:
    """The launches of a recording.

    Raises:
        InputError: it cannot be read, or is no recording of launches.
    """
    try:
        with gzip.open(path) as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InputError(f"{path} is too large for a recording of launches")
        return from_json(data, tuple[ProfiledLaunch, ...])
    except (OSError, EOFError, zlib.error, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no recording of launches: {error}") from error
