# SPDX-License-Identifier: Apache-2.0
"""Indices that wrap around by a comparison: the same remainders, whatever the numbers are."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SLUG = "wrap-by-compare"
KEPT = {
    "a ring, far and negative places": (
        """
__global__ void ring(const int *in, int *out, int n, int by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = in[(i + 1) % n] - in[(i - 1 + n) % n] + 3 * ((i - by + n) % n) + (i - 7) % n;
}
""",
        "  Device<int> x(n), y(n, 2); ring<<<(n + 31) / 32, 32>>>(x, y, n, by); y.show();",
        "int",
    ),
    "unsigned numbers, one remainder in another": (
        """
__global__ void shift(const float* in, float* out, unsigned n, int by) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[(n + (i + 3) % n - 1) % n] + by;
}
""",
        "  Device<float> x(n), y(n, 2); shift<<<(n + 31) / 32, 32>>>(x, y, n, by); y.show();",
        "unsigned int",
    ),
    "64 bits, a template": (
        """
template <typename T>
__global__ void periodic(const T* in, T* out, const size_t n, int by) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[(i + n - 1) % n] + in[(i + 2) % n];
}
""",
        "  Device<float> x(n), y(n, 2); periodic<float><<<(n + 31) / 32, 32>>>(x, y, n, by); y.show();",
        "size_t",
    ),
}
HEAD = "#define N 96\n__device__ int of(int i);\n__global__ void k(float* out, int n, int by, float w) {\n"


@pytest.mark.parametrize("name", KEPT)
def test_indices_wrap_around_as_before(name: str) -> None:
    code, main, kind = KEPT[name]
    text = program(code, "  int n = atoi(argv[1]), by = atoi(argv[2]);\n" + main)
    after = holds(SLUG, text, (1, 0), (2, 5), (33, 200), (100, -300))
    assert f"({kind} a, {kind} n)" in after
    assert after.count(" % n") == 1


@pytest.mark.parametrize(
    "index", ["i % n", "(i + by) % n", "(i + 1) % N", "(of(i) + 1) % n", "(i++ + n) % n", "(i + 100000) % n"]
)
def test_what_may_be_anything_is_divided(index: str) -> None:
    result, _ = rewritten(SLUG, f"{HEAD}  int i = threadIdx.x;\n  out[{index}] = w;\n}}\n")
    assert "by a division" in result.refused
