# SPDX-License-Identifier: Apache-2.0
"""What the launches of a host loop go along: the elements between lanes that are a row apart in one launch."""

from __future__ import annotations

import pytest

from warplens_tools.kernel import KernelView
from warplens_tools.machine.stepped import accesses_by_steps, is_line, stepped_parameters
from warplens_tools.testing import views

STEPPED = "for (int t = 0; t < w; ++t) k<<<64, 256>>>(a, w, t);"


def view_of(body: str, host: str = STEPPED) -> KernelView:
    (view,) = views(
        "__global__ void k(float *a, int w, int d)\n"
        f"{{ int i = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y; {body} }}\n"
        f"void f(float *a, int w) {{ {host} }}\n"
    )
    return view


@pytest.mark.parametrize(
    ("host", "names"),
    [
        (STEPPED, {"d"}),
        ("int t = 1; while (t < w) { k<<<64, 256>>>(a, w, t); t++; }", {"d"}),
        # by more than one, of something else, and of no loop
        ("for (int t = 0; t < w; t += 32) k<<<64, 256>>>(a, w, t);", set()),
        ("for (int t = 0; t < w; ++t) k<<<64, 256>>>(a, w, w);", set()),
        ("k<<<64, 256>>>(a, w, 3);", set()),
    ],
)
def test_the_parameters_that_are_passed_a_counter(host: str, names: set[str]) -> None:
    assert stepped_parameters(view_of("a[i * w + d] = 0;", host)) == names


@pytest.mark.parametrize(
    ("body", "count"),
    [
        # a column a launch, and an anti-diagonal: the next one comes to the element beside
        ("a[i * w + d] = 0;", 1),
        ("a[i * w + d - i] = 0;", 1),
        # a row a launch: the next one is a row further
        ("a[d * w + i] = 0;", 0),
        ("a[i] = 0;", 0),
    ],
)
def test_accesses_that_a_loop_of_launches_moves_along(body: str, count: int) -> None:
    found = accesses_by_steps(view_of(body))
    assert len(found) == count
    assert all(access.access.name == "a" and access.access.writes for access in found)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("a[i * w + d] = 0;", True),
        ("a[d * w + d] = 0;", True),
        # both axes, none that is passed, and an index that data hold
        ("a[i * w + y * d] = 0;", False),
        ("a[i] = 0;", False),
        ("a[(int)a[i] * w + d] = 0;", False),
    ],
)
def test_a_line_of_a_matrix(body: str, *, line: bool) -> None:
    index = next(a.index for a in view_of(body).global_accesses if a.writes)
    assert (index is not None and is_line(index)) == line
