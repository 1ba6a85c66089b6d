# SPDX-License-Identifier: Apache-2.0
"""The standard that programs of tests are compiled by where nothing hangs on it."""

from __future__ import annotations

#: The machine code is the same by any, and the host's headers are a third shorter to read than by C++17.
STANDARD = ("-std=c++14",)
#: For programs that may use cooperative groups, whose headers ask for it.
LATER = ("-std=c++17",)


def standard_of(*texts: str) -> tuple[str, ...]:
    """`STANDARD`, unless one of the texts asks for more."""
    return LATER if any("cooperative_groups" in text for text in texts) else STANDARD
