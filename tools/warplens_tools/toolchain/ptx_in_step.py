# SPDX-License-Identifier: Apache-2.0
"""What threads read of others' shared memory with no barrier after it was written, by PTX: lanes of a warp that are
thought to run in step.

Since Volta they need not (CUDA programming guide, independent thread scheduling); `volatile` orders one thread's
accesses alone. What each thread reads where it has written itself needs none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, by_kernel
from warplens_tools.toolchain.ptx_order import NAME, meets

_SHARED = re.compile(r"(ld|st)(?:\.\w+)*\.shared\b")
_VOLATILE = re.compile(r"(?:ld|st)\.(?:volatile|relaxed)\b")
_PLACE = re.compile(r"\[([^\]]+)\]")
_BARRIER = re.compile(r"(?:bar|barrier|membar|fence)\b")


class InStep(msgspec.Struct, frozen=True):
    """Of one kernel: whether it reads elsewhere in shared memory than it has written, and whether it does so with no
    barrier between, by accesses that are volatile."""

    exchanges: bool = False
    bare: bool = False


def in_step_in(ptx: str) -> dict[str, InStep]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, _of)


def in_step(baseline: Mapping[str, InStep], candidate: Mapping[str, InStep]) -> str:
    """What a candidate reads in shared memory with no barrier where the baseline has one; "" if nothing is known to
    be so."""
    for name, new in candidate.items():
        known = baseline.get(name, InStep())
        if known.exchanges and new.bare and not known.bare:
            return (
                "the edit has no barrier between what lanes write to shared memory and what others read there"
            )
    return ""


def _of(flow: Flow) -> InStep:
    events = [[*_events(block)] for block in flow.code]
    stored = {place for block in events for what, place, _ in block if what == "st"}

    def said(*, volatile: bool) -> list[list[str]]:
        return [
            [
                what
                for what, place, is_volatile in block
                if what == "bar" or ((is_volatile or not volatile) and (what == "st" or place not in stored))
            ]
            for block in events
        ]

    return InStep(
        meets(said(volatile=False), flow.after, "st", "ld", ""),
        meets(said(volatile=True), flow.after, "st", "ld", "bar"),
    )


def _events(lines: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    for line in lines:
        name = found[1] if (found := NAME.match(line)) is not None else ""
        if _BARRIER.match(name):
            yield ("bar", "", False)
        elif (access := _SHARED.match(name)) is not None and (place := _PLACE.search(line)):
            yield (access[1], place[1].strip(), _VOLATILE.match(name) is not None)
