# SPDX-License-Identifier: Apache-2.0
"""The examples that use a name."""

from __future__ import annotations

import math

from warplens_cutlass.search.ranked import Ranked
from warplens_cutlass.search.reader import Reader

_EXAMPLES = 3


def examples_of(name: str, reader: Reader, *, scale: float) -> list[Ranked]:
    """Examples that use a name, those that use it often in little code first; at the line of the first use."""
    rows = reader.examples_with(name)
    scored = sorted(rows, key=lambda r: -_telling(str(r[1]), int(str(r[3])), int(str(r[4]))))
    mains = reader.symbols(int(str(r[6])) for r in scored[:_EXAMPLES])
    return [
        Ranked(mains[int(str(r[6]))], scale * 0.92**place, f"uses {name}, first at line {r[2]}", example=True)
        for place, r in enumerate(scored[:_EXAMPLES])
        if int(str(r[6])) in mains
    ]


def _telling(path: str, count: int, size: int) -> float:
    """Uses per size, damped; programs and tutorials before helper headers."""
    program = 1.5 if path.endswith(".cu") else 1.0
    tutorial = 1.4 if "tutorial" in path else 1.0
    return float(program * tutorial * math.sqrt(min(count, 8) / (20_000 + size)))
