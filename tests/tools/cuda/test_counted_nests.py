# SPDX-License-Identifier: Apache-2.0
"""Loops as long as what other loops of the kernel count."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.facts.counted_nests import counted_nests
from warplens_tools.testing import views

COUNT = """
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
            if (a[i * n + j] > 0.0f) count{up};
"""
SORT = """
    for (int x = 0; x < count - 1; ++x)
        for (int y = 0; y < {end}; ++y) o[y] = a[y];
"""


def found(body: str) -> list[int]:
    """Depths of the nests of a kernel."""
    (view,) = views(
        "__global__ void k(const float *a, float *o, int n, int count)\n{" + body + "}\n"
        "void f(float *a, float *o) { k<<<64, 256>>>(a, o, 9, 0); }"
    )
    return [nest.depth for nest in counted_nests(view.tree, view.kernel)]


@pytest.mark.parametrize(
    ("body", "depths"),
    [
        (COUNT.format(up="++") + SORT.format(end="count - x"), [4]),
        (COUNT.format(up="++") + SORT.format(end="n"), [3]),
        # counted by no loop, counted only after it, and stepped by the loop itself
        (SORT.format(end="count"), []),
        (SORT.format(end="count") + COUNT.format(up="++"), []),
        ("for (int i = 0; i < count; i++) o[i] = a[i];", []),
        # set, not counted
        (COUNT.format(up=" = 2") + SORT.format(end="count"), []),
    ],
)
def test_depths_of_what_was_counted(body: str, depths: list[int]) -> None:
    assert found(body) == depths
