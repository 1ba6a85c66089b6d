# SPDX-License-Identifier: Apache-2.0
"""Sums in memory by the names that choose their element, whatever its index comes to."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.facts.memory_sums import stored_sums
from warplens_tools.testing import views


@pytest.mark.parametrize(
    ("body", "around"),
    [
        ("int p = at(i); for (int k = 0; k < n; ++k) o[p] += a[k];", [2]),
        ("for (int k = 0; k < n; ++k) { int p = at(k); o[p] += a[k]; }", []),
        ("int p = at(i); for (int k = 0; k < n; ++k) o[p + at(k)] += a[k];", []),
        ("int p = at(i); for (int k = 0; k < n; ++k) { o[p] += a[k]; p++; }", []),
        ("int p = at(i); for (int k = 0; k < n; ++k) for (int c = 0; c < n; ++c) o[p + at(c)] += a[k];", [2]),
        ("int p = at(i); for (int k = 0; k < n; ++k) o[p] = a[k];", []),
        ("int p = at(i); for (int k = 0; k < n; ++k) atomicAdd(&o[p], a[k]);", []),
    ],
)
def test_an_element_stays_where_no_name_of_its_index_changes_but_by_loops_within(
    body: str, around: list[int]
) -> None:
    text = f"__global__ void k(const float *a, float *o, int n)\n{{ int i = threadIdx.x; {body} }}\n"
    (view,) = views(text)
    assert [s.around.span.line for s in stored_sums(view.accesses, view.said)] == around
