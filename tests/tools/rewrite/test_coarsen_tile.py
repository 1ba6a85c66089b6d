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
TWO_PASSES = """
__constant__ float basis[8][8];
__global__ void both_ways(const float* image, float* coefs, int width, int height) {
  __shared__ float tile[8][8];
  __shared__ float half[8][8];
  int tx = threadIdx.x, ty = threadIdx.y;
  int x = blockIdx.x * 8 + tx;
  int y = blockIdx.y * 8 + ty;
  tile[ty][tx] = image[y * width + x] - 1.0f;
  __syncthreads();
  float sum = 0.0f;
  for (int k = 0; k < 8; k++) sum += tile[ty][k] * basis[tx][k];
  half[ty][tx] = sum;
  __syncthreads();
  sum = 0.0f;
  for (int k = 0; k < 8; k++) sum += half[k][tx] * basis[ty][k];
  coefs[y * width + x] = sum;
}
"""
TABLE = """  float t[8][8]; for (int i = 0; i < 64; ++i) t[i / 8][i % 8] = (i * 37 % 19) / 8.0f;
  cudaMemcpyToSymbol(basis, t, sizeof(t)); int w = 16, h = 8 * atoi(argv[1]); Device<float> a(w * h), b(w * h, 2);
  both_ways<<<dim3(w / 8, h / 8), dim3(8, 8)>>>(a, b, w, h); b.show();"""
PROGRAMS = {
    "what rows came to in a second tile": (TWO_PASSES, TABLE),
    "other rows of the block": (
        PLAIN.replace("As[threadIdx.y][k]", "As[k][threadIdx.y]"),
        "  int n = 16 * atoi(argv[1]); Device<float> a(n * n), b(n * n, 2), c(n * n); run(a, b, c, n); c.show();",
    ),
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
    "other rows of a higher tile": PLAIN.replace("As[TILE]", "As[TILE + 1]").replace(
        "As[threadIdx.y][k]", "As[k][1]"
    ),
    "no launch": PLAIN[: PLAIN.index("void run")],
    "no tiles": PLAIN.replace("    __syncthreads();\n", ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_kernels_are_left_alone(name: str) -> None:
    assert rewritten("coarsen-tile", REFUSED[name])[0].refused
