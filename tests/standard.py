# SPDX-License-Identifier: Apache-2.0
"""The standard that programs of tests are compiled by where nothing hangs on it."""

from __future__ import annotations

from warplens_tools.toolchain.compile import WITHOUT_SPECIAL_FUNCTIONS

#: The machine code is the same by any, and the host's headers are a third shorter to read than by C++17.
STANDARD = ("-std=c++14",)
#: For programs that may use cooperative groups, whose headers ask for it.
LATER = ("-std=c++17",)
#: Skips templates for the host that C++17's <cmath>, <algorithm>, <numeric> and <memory> bring along, parallel
#: algorithms among them: a sixth to a third of what nvcc takes for a small program. What called them would not compile.
WITHOUT_WHAT_NO_TEST_CALLS = (
    *WITHOUT_SPECIAL_FUNCTIONS,
    *(f"-D_PSTL_GLUE_{header}_DEFS_H" for header in ("ALGORITHM", "NUMERIC", "MEMORY")),
)


def standard_of(*texts: str) -> tuple[str, ...]:
    """`STANDARD`, unless one of the texts asks for more."""
    return LATER if any("cooperative_groups" in text for text in texts) else STANDARD
