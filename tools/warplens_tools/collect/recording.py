# SPDX-License-Identifier: Apache-2.0
"""Launches that were profiled once, kept as packed JSON: small enough for a repository, read without Nsight Compute.

A recording holds what Warplens itself asks Nsight Compute for, whatever else the report had: the metrics of
`collect.metrics.NEEDS`, counters and stall samples of every instruction, the card's attributes, the source of
the files it was built from, and Nsight Compute's own advice.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens_tools.collect import metrics as names
from warplens_tools.collect.ncu import NcuRequest, requested_metrics
from warplens_tools.collect.profiled import ProfiledLaunch
from warplens_tools.decode import from_json
from warplens_tools.errors import InputError
from warplens_tools.evidence import InstructionCounters

#: End of a recording's name.
SUFFIX = ".json.gz"
#: What the card and the launch are, which Nsight Compute says unasked.
_UNASKED = ("device__attribute_", "launch__", names.PASSES)
_SAMPLED = "smsp__pcsamp_warps_issue_stalled_"
#: An unpacked recording larger than this is none of ours: a thousand instructions take about 300 KB.
MAX_BYTES = 64 * 1024 * 1024


def trimmed(launch: ProfiledLaunch) -> ProfiledLaunch:
    """The launch with what Warplens reads of it, and the names of its sources without their folders."""
    asked = frozenset(requested_metrics(NcuRequest(launch.kernel, tensor=True, atomics=True, constants=True)))
    return msgspec.structs.replace(
        launch,
        metrics={k: v for k, v in launch.metrics.items() if k in asked or k.startswith(_UNASKED)},
        units={k: v for k, v in launch.units.items() if k in asked},
        texts={},
        instructions=tuple(_instruction(x, asked) for x in launch.instructions),
        sources=_own(launch),
    )


def _instruction(counted: InstructionCounters, asked: frozenset[str]) -> InstructionCounters:
    place = counted.place
    if place is not None:
        place = msgspec.structs.replace(place, path=Path(place.path).name)
    kept = {k: v for k, v in counted.values.items() if k in asked or _is_sample(k)}
    return msgspec.structs.replace(counted, place=place, values=kept)


def _is_sample(name: str) -> bool:
    return name.startswith(_SAMPLED) and not name.endswith("_not_issued")


def _own(launch: ProfiledLaunch) -> dict[str, str]:
    """The program's own sources: headers of the toolkit are long, and no line of a user's file."""
    return {Path(p).name: text for p, text in launch.sources.items() if p.endswith((".cu", ".cuh"))}


def write_recording(path: Path, launches: Sequence[ProfiledLaunch]) -> None:
    """Write launches, trimmed; the same launches give the same bytes."""
    data = msgspec.json.encode([trimmed(launch) for launch in launches], order="sorted")
    path.write_bytes(gzip.compress(data, mtime=0))


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
