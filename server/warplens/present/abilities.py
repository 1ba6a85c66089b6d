# SPDX-License-Identifier: Apache-2.0
"""What Warplens can do on a machine, in words, from what the doctor looked at."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warplens_tools.collect.doctor import Check

_COMPILER = ("nvcc", "ptxas", "cicc", "CUDA headers", "host compiler", "trial compile")
_PROBE = ("GPU", "driver", "CUPTI headers", "CUPTI library")
_TYPING = "findings from the text, while you type"
_COMPILED = "registers, spills and occupancy, on save"
_READ = "what bounds a kernel, from its machine code"
_PROVEN = "times, and faster kernels with their proof"

#: What Warplens does, from the least to the most that it needs, and the doctor's checks that it rests on.
_ABILITIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (_TYPING, ()),
    (_COMPILED, _COMPILER),
    (_READ, (*_COMPILER, "nvdisasm")),
    (_PROVEN, (*_COMPILER, *_PROBE)),
    ("what the hardware counted, line by line", ("GPU", "driver", "ncu", "counters")),
    ("timelines of a program", ("GPU", "driver", "nsys")),
    ("the memory check of a faster kernel", ("GPU", "driver", "compute-sanitizer")),
)


class Ability(msgspec.Struct, frozen=True):
    """Something that Warplens does, and what stands in the way here."""

    what: str
    #: Empty where it works.
    lacking: tuple[Check, ...]

    @property
    def why(self) -> str:
        """What is in the way, by name; "" where nothing is."""
        return ", ".join(dict.fromkeys(f"{check.name} {check.status}" for check in self.lacking))


def abilities(checks: Sequence[Check]) -> tuple[Ability, ...]:
    """All that Warplens does; a warning stands in the way of nothing but counters, which it is about."""
    return tuple(
        Ability(what, tuple(c for c in checks if c.name in needs and _stops(c))) for what, needs in _ABILITIES
    )


def summary(checks: Sequence[Check]) -> str:
    """What works and what does not, in one or two sentences."""
    able = {ability.what: ability for ability in abilities(checks)}
    if able[_COMPILED].lacking:
        first = able[_COMPILED].lacking[0]
        return f"Findings rest on the text alone: {first.text}."
    if able[_READ].lacking:
        return f"Kernels are compiled here, but not read: {able[_READ].lacking[0].text}."
    if not able[_PROVEN].lacking:
        return "Everything works here, from findings to faster kernels with their proof."
    lacking = able[_PROVEN].lacking
    first = next((check for check in lacking if check.name == "GPU"), lacking[0])
    return f"All that needs no GPU works here. Nothing can be timed, and no edit proven: {first.text}."


def _stops(check: Check) -> bool:
    return check.status in ("missing", "broken") or (check.name == "counters" and bool(check.takes_away))
