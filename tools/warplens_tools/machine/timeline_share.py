# SPDX-License-Identifier: Apache-2.0
"""What a timeline says of copies: how long they took, of what memory, and what ran beside them."""

from __future__ import annotations

from collections.abc import Sequence

from warplens_tools.evidence import Observation, TimelineEvidence, TransferTotal

_DIRECTIONS = {"in": "host to device", "out": "device to host"}
#: Share of a program's span below which its copies are not worth a word: a tenth, as for other host causes.
WORTH = 0.1


def host_transfers(timeline: TimelineEvidence, directions: Sequence[str]) -> list[TransferTotal]:
    """The timeline's copies of these directions ("in", "out")."""
    wanted = {_DIRECTIONS[direction] for direction in directions}
    return [t for t in timeline.transfers if t.direction in wanted]


def total_ns(transfers: Sequence[TransferTotal]) -> float:
    """Nanoseconds that the device copied."""
    return sum(t.total_ns for t in transfers)


def share_observation(timeline: TimelineEvidence, metric: str, nanoseconds: float) -> Observation:
    """A time as a share of the program's span on the device."""
    return Observation(
        "timeline", timeline.origin, metric, round(nanoseconds / timeline.span_ns, 3), "", WORTH, "share of the span"
    )  # fmt: skip
