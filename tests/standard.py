# SPDX-License-Identifier: Apache-2.0
"""The standard that programs of tests are compiled by where nothing hangs on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

#: The machine code is the same by any, and the host's headers are a third shorter to read than by C++17.
STANDARD = ("-std=c++14",)
#: For programs that may use cooperative groups, whose headers ask for it.
LATER = ("-std=c++17",)
#: Headers that stand for the C++ library's, with what programs ask of them, and are read in a tenth of the time.
_LEAN = Path(__file__).parent / "lean"


def standard_of(*texts: str) -> tuple[str, ...]:
    """`STANDARD`, unless one of the texts asks for more."""
    return LATER if any("cooperative_groups" in text for text in texts) else STANDARD


@contextlib.contextmanager
def lean_headers() -> Iterator[None]:
    """While it is open, compilers take them: for programs that are compiled for what else is in them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CPLUS_INCLUDE_PATH", str(_LEAN), prepend=":")
        yield
