# SPDX-License-Identifier: Apache-2.0
"""How alike two kernels are, by their features."""

from __future__ import annotations

import math
from collections.abc import Mapping

#: Mean squared difference of the features at which a trial counts for a third (1/e): two kernels that differ in one
#: of ten features entirely.
SCALE = 0.1


def likeness(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """1 for equal features, towards 0 for others.

    Findings are compared over all that either has: one that a kernel does not have counts as 0. Other features that
    only one of them knows are left out.
    """
    names = {
        name for name in {**one, **other} if name.startswith("finding:") or (name in one and name in other)
    }
    if not names:
        return 0.0
    differences = [(one.get(name, 0.0) - other.get(name, 0.0)) ** 2 for name in names]
    return math.exp(-sum(differences) / len(differences) / SCALE)
