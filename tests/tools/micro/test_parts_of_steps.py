# SPDX-License-Identifier: Apache-2.0
"""Steps of a host loop whose launches take a part of the array, by their grid, or another array each."""

from __future__ import annotations

import pytest

from warplens_tools.micro.pass_per_step import PassPerStep
from warplens_tools.testing import views

KERNEL = """__global__ void k(float *a, int n, int s)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i * n + s] = 0.5f * (a[i * n + s - 1] + a[i]);
}
"""


def said(loop: str) -> list[str]:
    (view,) = views(f"{KERNEL}void f(float *a, int rows, int columns, int n) {{ {loop} }}\n")
    return [finding.message for finding in PassPerStep(view).check()]


@pytest.mark.parametrize(
    "loop",
    [
        # the blocks of a diagonal of tiles, named, within a dim3, and written out
        "for (int s = 0; s < rows + columns - 1; s++) { int many = min(s + 1, columns); "
        "if (s >= rows) { many = rows + columns - s - 1; } k<<<many, 64>>>(a, n, s); }",
        "for (int s = 0; s < rows; s++) { int many = s + 1; dim3 grid(many, 1); k<<<grid, 64>>>(a, n, s); }",
        "for (int s = 0; s < rows; s++) k<<<(s + 63) / 64, 64>>>(a, n, s);",
    ],
)
def test_a_grid_that_goes_by_the_step_takes_a_part(loop: str) -> None:
    (message,) = said(loop)
    assert message.startswith("One launch for a part of a per step") and "that s chooses" in message


def test_a_grid_that_is_the_same_takes_the_whole() -> None:
    (message,) = said("for (int s = 0; s < rows; s++) { int many = n / 64; k<<<many, 64>>>(a, n, s); }")
    assert "the whole of it again" in message


def test_an_array_that_each_iteration_makes_anew_is_another_one() -> None:
    assert not said("for (int s = 0; s < rows; s++) { float *line = next(a, s); k<<<64, 64>>>(line, n, s); }")
    assert said("for (int s = 0; s < rows; s++) { float *line = next(a, s); k<<<64, 64>>>(a, n, s); }")
