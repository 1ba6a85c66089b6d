# SPDX-License-Identifier: Apache-2.0
"""Writes the recordings of launches that `warplens_tools.collect.recording` reads."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens_tools.collect import metrics as names
from warplens_tools.collect.ncu import NcuRequest, requested_metrics
from warplens_tools.collect.profiled import ProfiledLaunch
from warplens_tools.evidence import InstructionCounters

#: What the card and the launch are, which Nsight Compute says unasked.
_UNASKED = ("device__attribute_", "launch__", names.PASSES)
_SAMPLED = "smsp__pcsamp_warps_issue_stalled_"


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
