# SPDX-License-Identifier: Apache-2.0
"""Tiled products with several rows a thread."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

PLAIN = """
#define TILE 16
__global__ void matmul(const float* A, const float* B, float* C, int N) {
  __shared__ float As[TILE][TILE];
  __shared__ float Bs[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y;
  int col = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int t = 0; t < N; t += TILE) {
    As[threadIdx.y][threadIdx.x] = A[row * N + t + threadIdx.x];
    Bs[threadIdx.y][threadIdx.x] = B[(t + threadIdx.y) * N + col];
    __syncthreads();
    for (int k = 0; k < TILE; ++k) {
      sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
    }
    __syncthreads();
  }
  C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int n) {
  dim3 block(TILE, TILE), grid(n / TILE, n / TILE);
  matmul<<<grid, block>>>(A, B, C, n);
}
"""
GUARDED = """
template <typename T, int BS>
__global__ void tiled(const T *a, const T *b, T *c, int m, int n, int k, T alpha)
{
    __shared__ T sa[BS][BS + 1], sb[BS][BS + 1];
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int r = by * 8 + ty;
    const int q = bx * 8 + tx;
    T acc = T(0);
    for (int p = 0; p < (k + BS - 1) / BS; ++p)
    {
        if (r < m && p * BS + tx < k)
            sa[ty][tx] = a[r * k + p * BS + tx];
        else
            sa[ty][tx] = T(0);
        sb[ty][tx] = (q < n && p * BS + ty < k) ? b[(p * BS + ty) * n + q] : T(0);
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < BS; ++i) acc += sa[ty][i] * sb[i][tx];
        __syncthreads();
    }
    if (r < m && q < n) {
        int at = r * n + q;
        c[at] = alpha * acc + c[at];
    }
}
"""
PROGRAMS = {
    "no conditions": (
        PLAIN,
        "  int n = 16 * atoi(argv[1]); Device<float> a(n * n), b(n * n, 2), c(n * n); run(a, b, c, n); c.show();",
    ),
    "conditions, short names, a template": (
        GUARDED,
        "  int m = 13 * atoi(argv[1]), n = 21, k = 19;\n"
        "  Device<double> a(m * k), b(k * n, 2), c(m * n, 3); dim3 t(8, 8), g((n + 7) / 8, (m + 7) / 8);\n"
        "  tiled<double, 8><<<g, t>>>(a, b, c, m, n, k, 0.5); c.show();",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_thread_has_several_rows(name: str) -> None:
    after = holds("coarsen-tile", program(*PROGRAMS[name]), (1,), (3,), relative=1e-5, absolute=1e-4)
    assert "sum[r]" in after or "acc[r2]" in after
    assert rewritten("coarsen-tile", after)[0].refused


REFUSED = {
    "an early return": PLAIN.replace("  float sum", "  if (row >= N) return;\n  float sum"),
    "another use of the block": PLAIN.replace("= sum;", "= sum + blockIdx.y;"),
    "no tile of rows": PLAIN.replace("A[row * N", "A[N"),
    "other rows are read": PLAIN.replace("As[threadIdx.y][k]", "As[k][threadIdx.y]"),
    "no launch": PLAIN[: PLAIN.index("void run")],
    "no tiles": PLAIN.replace("    __syncthreads();\n", ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_kernels_are_left_alone(name: str) -> None:
    assert rewritten("coarsen-tile", REFUSED[name])[0].refused
