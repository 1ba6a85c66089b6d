# SPDX-License-Identifier: Apache-2.0
"""What functions that a kernel calls access, by what they are handed."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.facts.called_accesses import CalledAccess, called_accesses
from warplens_tools.cuda.values.forms import describe
from warplens_tools.testing import views

HEAD = """
__device__ float at(const float *m, int row, int column, const int &columns) { return m[row * columns + column]; }
__device__ float deeper(const float *m, int i, int n)
{
    float sum = 0;
    m += n;
    for (int j = 0; j < n; ++j) sum += at(m, i, j, n);
    return sum;
}
template <typename T> __device__ T typed(const T *m, int i) { int k = i; k *= 2; return m[k]; }
__device__ float again(const float *m, int i) { return i > 0 ? again(m, i - 1) : m[i]; }
__device__ float two(const float *m, int i) { return m[i]; }
__device__ float two(const double *m, int i) { return m[i]; }
__global__ void k(const float *a, float *o, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; %s }
"""


def found(body: str) -> tuple[CalledAccess, ...]:
    (view,) = views(HEAD % body)
    return called_accesses(view.tree, view.kernel, view.dim3)


@pytest.mark.parametrize(
    ("body", "index", "loops"),
    [
        ("o[i] = at(a, n, i, n);", "blockDim.x * blockIdx.x + n * n + threadIdx.x", 0),
        ("for (int j = 0; j < n; ++j) o[i] += at(a + 4, 0, threadIdx.x, n);", "4 + threadIdx.x", 1),
        ("o[i] = typed<float>(a, threadIdx.x);", "2 * threadIdx.x", 0),
    ],
)
def test_indices_are_the_callers(body: str, index: str, loops: int) -> None:
    (one,) = found(body)
    assert one.access.name == "a"
    assert one.access.index is not None
    assert describe(one.access.index) == index
    assert len(one.access.loops) == loops


def test_calls_are_followed_with_what_they_hand_on() -> None:
    (one,) = found("o[i] = deeper(a, threadIdx.x, n);")
    assert one.function == "at"
    assert one.access.index is not None
    growth = one.access.index.growth("threadIdx.x")
    assert growth is not None
    assert describe(growth) == "n"
    assert len(one.access.loops) == 1


@pytest.mark.parametrize("body", ["o[i] = two(a, i);", "o[i] = elsewhere(a, i);", "o[i] = a[i];"])
def test_what_is_not_one_function_of_the_file_is_left_alone(body: str) -> None:
    assert found(body) == ()


def test_a_function_that_calls_itself_is_read_once() -> None:
    assert [c.access.name for c in found("o[i] = again(a, i);")] == ["a"]
