# SPDX-License-Identifier: Apache-2.0
"""What a block reads again and again, staged in shared memory."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SLUG = "stage-block-data"
PRODUCTS = """
#define DIM 16
__global__ void products(const float* a, const float* b, float* c, int count) {
  int m = blockIdx.x;
  if (m >= count) return;
  int i = threadIdx.y, j = threadIdx.x;
  const float* mine = a + (size_t)m * DIM * DIM;
  b += (size_t)m * DIM * DIM;
  float s = 0;
  for (int k = 0; k < DIM; k++) s += mine[i * DIM + k] * b[k * DIM + j];
  c[((size_t)m * DIM + i) * DIM + j] = s;
}
void run(const float* a, const float* b, float* c, int n) { products<<<n, dim3(DIM, DIM)>>>(a, b, c, n); }
"""
#: A row of weights, of which each thread reads a window, and rows with a gap between them.
WINDOWS = """
constexpr int kTaps = 9;
__global__ void windows(const float* x, const float* taps, float* y) {
  const float* row = x + blockIdx.x * 100;
  float s = 0;
  for (int k = 0; k < kTaps; ++k) s += row[threadIdx.x + k] * taps[k];
  for (int k = 0; k < kTaps; ++k) s += taps[k];
  y[blockIdx.x * 64 + threadIdx.x] = s;
}
void run(const float* a, const float* b, float* c, int n) { windows<<<n, 64>>>(a, b, c); }
"""
MAIN = "  int n = atoi(argv[1]); Device<float> a(n * 256), b(n * 256, 2), c(n * 256, 3); run(a, b, c, n); c.show();"


@pytest.mark.parametrize("code", [PRODUCTS, WINDOWS], ids=["products", "windows"])
def test_a_block_reads_its_data_once(code: str) -> None:
    after = holds(SLUG, program(code, MAIN), (1,), (5,), relative=1e-6)
    assert "__shared__ float tile" in after and "__syncthreads();" in after
    assert rewritten(SLUG, after)[0].refused


def test_rows_are_padded_and_numbers_keep_their_names() -> None:
    after = rewritten(SLUG, PRODUCTS)[1]
    assert "tileMine[DIM][DIM + 1]" in after and "tileMine[i][k] * tileB[k][j]" in after


@pytest.mark.parametrize(
    "change",
    [("if (m >= count)", "if (m + j >= count)"), ("dim3(DIM, DIM)", "dim3(DIM, n)"), ("k < DIM", "k < count"),
     ("mine[i * DIM + k]", "mine[i * count + k]"), ("float s = 0;", "float s = 0; __syncthreads();"),
     ("s += mine", "if (i > k) s += mine"), ("mine = a + (size_t)m", "mine = a + (size_t)j"),
     ("#define DIM 16", "#define DIM 4096")],
)  # fmt: skip
def test_what_is_not_the_same_for_the_block_stays(change: tuple[str, str]) -> None:
    text = PRODUCTS.replace("int i = threadIdx.y, j = threadIdx.x;\n", "").replace(
        "  int m =", "  int i = threadIdx.y, j = threadIdx.x;\n  int m ="
    )
    result, after = rewritten(SLUG, text.replace(*change))
    assert result.refused or "tileMine" not in after
