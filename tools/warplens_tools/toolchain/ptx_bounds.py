# SPDX-License-Identifier: Apache-2.0
"""Loops over data, by PTX: bounds that an edit adds to those that data alone end, and steps that it takes where the
kernel looks at one after the other.

A search that stops after `capacity / 128` places finds what is nearer, and a comparison that skips from the first
letters to the last takes for equal what differs between. On a run's own data neither may happen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from warplens_tools.toolchain.ptx_ends import Loop, loops_in
from warplens_tools.toolchain.ptx_flow import bodies_of


class Bounds(msgspec.Struct, frozen=True):
    """Of one kernel, how many of its loops: data alone end; data end, or a counter by then that goes up to a part of
    some number; data end, or a counter; of these a counter that goes up to a number of the text, or no further; data
    alone end, by what goes up to what stays, by steps that differ; and whether a loop that data alone end halves
    something."""

    open_ended: int = 0
    cut: int = 0
    scans: int = 0
    held: int = 0
    skips: int = 0
    halves: bool = False


def bounds_in(ptx: str) -> dict[str, Bounds]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return {name: _of(loops_in(body)) for name, body in bodies_of(ptx)}


def cut_short(baseline: Mapping[str, Bounds], candidate: Mapping[str, Bounds]) -> str:
    """Why a candidate's loops may miss what the baseline's see; "" if nothing is known to say so."""
    for name, new in candidate.items():
        known = baseline.get(name, Bounds())
        if new.open_ended < known.open_ended and new.cut > known.cut and not known.halves:
            return "the edit bounds a loop that the kernel's data alone end, by a part of a number that it is given"
        if new.scans - new.held < known.scans - known.held and new.held > known.held and not known.halves:
            return "the edit looks no further than a number of its text, the kernel as far as it is told"
        if new.scans < known.scans and new.skips > known.skips and not new.halves:
            return (
                "the edit goes by steps that follow data through what the kernel looks at one after the other"
            )
    return ""


def _of(loops: Sequence[Loop]) -> Bounds:
    open_ended = [loop for loop in loops if loop.open_ended]
    scans = [loop for loop in loops if loop.counted and loop.by_data]
    return Bounds(
        len(open_ended),
        sum(loop.cut for loop in scans),
        len(scans),
        sum((loop.held or loop.fixed) and not loop.halves for loop in scans),
        sum(loop.skips for loop in open_ended),
        any(loop.halves for loop in open_ended),
    )
