# SPDX-License-Identifier: Apache-2.0
"""Products in shared tiles, tiled anew with several outputs a thread."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.joined_loops import JoinedLoops

SLUG = "register-tile-again"
MAIN = """
  int n = atoi(argv[1]);
  Device<float> a(n * n, 1), b(n * n, 2), c(n * n, 3);
  run(a, b, c, n);
  c.show();
"""
GUARDED = """
#define TILE_WIDTH 16
__global__ void matmul(float* P, const float* M, const float* N, int n) {
  __shared__ float ds_M[TILE_WIDTH][TILE_WIDTH];
  __shared__ float ds_N[TILE_WIDTH][TILE_WIDTH];
  int bx = blockIdx.x, by = blockIdx.y;
  int tx = threadIdx.x, ty = threadIdx.y;
  int Row = by * TILE_WIDTH + ty;
  int Col = bx * TILE_WIDTH + tx;
  float Pvalue = 0;
  for (int m = 0; m < (n + TILE_WIDTH - 1) / TILE_WIDTH; ++m) {
    if (Row < n && m * TILE_WIDTH + tx < n)
      ds_M[ty][tx] = M[Row * n + m * TILE_WIDTH + tx];
    else
      ds_M[ty][tx] = 0.0f;
    if (Col < n && m * TILE_WIDTH + ty < n)
      ds_N[ty][tx] = N[(m * TILE_WIDTH + ty) * n + Col];
    else
      ds_N[ty][tx] = 0.0f;
    __syncthreads();
    for (int k = 0; k < TILE_WIDTH; ++k) {
      Pvalue += ds_M[ty][k] * ds_N[k][tx];
    }
    __syncthreads();
  }
  if (Row < n && Col < n) P[Row * n + Col] = Pvalue;
}
void run(const float* a, const float* b, float* c, int n) {
  dim3 grid((n + TILE_WIDTH - 1) / TILE_WIDTH, (n + TILE_WIDTH - 1) / TILE_WIDTH), block(TILE_WIDTH, TILE_WIDTH);
  matmul<<<grid, block>>>(c, a, b, n);
}
"""
TURNED = """
constexpr int kTile = 8;
__global__ void matmul(float* C, const float* A, const float* B, int n, float alpha) {
  __shared__ float sa[kTile][kTile], sb[kTile][kTile + 1];
  const int row = threadIdx.y + blockIdx.y * blockDim.y;
  const int col = threadIdx.x + blockIdx.x * blockDim.x;
  float sum = 0.f;
  for (int i = 0; i < n; i += kTile) {
    int ca = i + threadIdx.x;
    int rb = i + threadIdx.y;
    sa[threadIdx.y][threadIdx.x] = (row < n && ca < n) ? A[row * n + ca] : 0.f;
    sb[threadIdx.x][threadIdx.y] = (rb < n && col < n) ? B[rb * n + col] : 0.f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kTile; k++) sum += sa[threadIdx.y][k] * sb[threadIdx.x][k];
    __syncthreads();
  }
  if (row < n && col < n) C[row * n + col] = alpha * sum + C[row * n + col];
}
void run(const float* a, const float* b, float* c, int n) {
  matmul<<<dim3((n + 7) / 8, (n + 7) / 8), dim3(kTile, kTile)>>>(c, a, b, n, 0.5f);
}
"""

SHORTEST = """
#define TILE 16
#define INF 1000000000
__global__ void shortest(const int* a, const int* b, int* c, int n) {
  __shared__ int as[TILE][TILE], bs[TILE][TILE];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * TILE + ty;
  int col = blockIdx.x * TILE + tx;
  int best = INF;
  for (int t = 0; t < (n + TILE - 1) / TILE; t++) {
    if (row < n && t * TILE + tx < n)
      as[ty][tx] = a[row * n + t * TILE + tx];
    else
      as[ty][tx] = INF;
    bs[ty][tx] = t * TILE + ty < n && col < n ? b[(t * TILE + ty) * n + col] : INF;
    __syncthreads();
    for (int k = 0; k < TILE; k++) {
      int through = as[ty][k] + bs[k][tx];
      if (through < best) best = through;
    }
    __syncthreads();
  }
  if (row < n && col < n) c[row * n + col] = best;
}
void run(const int* a, const int* b, int* c, int n) {
  dim3 block(TILE, TILE), grid((n + TILE - 1) / TILE, (n + TILE - 1) / TILE);
  shortest<<<grid, block>>>(a, b, c, n);
}
"""


@pytest.mark.compiler
def test_tiles_filled_with_what_a_minimum_ignores_are_tiled_anew() -> None:
    after = holds(SLUG, program(SHORTEST, MAIN.replace("float", "int")), (5,), (64,), (77,))
    assert "< n ? a[row * n + k] : INF;" in after
    assert "< steps" not in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("as[ty][tx] = INF", "as[ty][tx] = 1 - INF"),  # less than any path
        ("#define INF 1000000000", "#define INF 2000000000"),  # the sum of two is negative
        ("through < best", "through > best"),
        ("int best = INF", "int best = c[0]"),
        ("t * TILE + ty < n && col < n ?", "col < n ?"),  # another row's element and no fill
        ("best = through;", "best = through; else best = 0;"),
        ("as[ty][tx] = INF;", "as[tx][ty] = INF;"),
    ],
)
def test_a_fill_that_may_change_the_result_is_refused(old: str, new: str) -> None:
    assert old in SHORTEST
    result, _ = rewritten(SLUG, SHORTEST.replace(old, new))
    assert result.refused


@pytest.mark.compiler
@pytest.mark.parametrize("code", [GUARDED, TURNED], ids=["guarded", "turned"])
def test_a_tiled_product_is_tiled_anew_and_says_the_same(code: str) -> None:
    after = holds(SLUG, program(code, MAIN), (5,), (64,), (77,))
    assert "kOutputsX" in after or "OUTPUTS_X" in after
    assert "kThreadsY" in after or "THREADS_Y" in after


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("m * TILE_WIDTH + tx];", "m * TILE_WIDTH + 2 * tx];", "consecutive"),
        ("block(TILE_WIDTH, TILE_WIDTH)", "block(TILE_WIDTH, 8)", "as wide as its block"),
        ("ds_M[ty][tx] = 0.0f;", "ds_M[ty][tx] = 1.0f;", "not zero"),
        ("ds_M[ty][k] *", "ds_M[k][ty] *", "other places"),
        ("Pvalue += ds_M[ty][k]", "ds_M[ty][k] += ds_M[ty][k]", "writes the tiles"),
    ],
)
def test_tiles_that_are_filled_or_read_otherwise_are_left_alone(old: str, new: str, why: str) -> None:
    result, _ = rewritten(SLUG, program(GUARDED.replace(old, new), MAIN))
    assert not result.edits and why in result.refused


def test_two_loops_are_one_only_where_their_indices_are_the_same() -> None:
    joined = JoinedLoops("t", "k", "k", 16, 1, {"TILE": 16})
    assert joined.at("A[row * n + t * TILE + k]") == "A[row * n + k]"
    assert joined.at("B[(t * TILE + k) * n + col]") == "B[k * n + col]"
    for wrong in ("A[row * n + t * 8 + k]", "A[row * n + t * TILE + 2 * k]", "A[f(t, k)]"):
        with pytest.raises(Refused):
            joined.at(wrong)


FLAT = """
#define BS 8
__global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float sa[BS * BS], sb[BS * BS];
  int row = blockIdx.y * BS + threadIdx.y;
  int col = blockIdx.x * BS + threadIdx.x;
  float acc = 0.f;
  for (int t = 0; t < n; t += BS) {
    sa[threadIdx.y * BS + threadIdx.x] = (row < n && t + threadIdx.x < n) ? a[row * n + t + threadIdx.x] : 0.f;
    sb[threadIdx.x + BS * threadIdx.y] = (col < n && t + threadIdx.y < n) ? b[(t + threadIdx.y) * n + col] : 0.f;
    __syncthreads();
    for (int k = 0; k < BS; k++) acc += sa[threadIdx.y * BS + k] * sb[k * BS + threadIdx.x];
    __syncthreads();
  }
  if (row < n && col < n) c[row * n + col] = acc;
}
void run(const float* a, const float* b, float* c, int n) {
  matmul<<<dim3((n + BS - 1) / BS, (n + BS - 1) / BS), dim3(BS, BS)>>>(a, b, c, n);
}
"""
DYNAMIC = """
__global__ void matmul(const float* A, const float* B, float* C, int n, int ts) {
  extern __shared__ float smem[];
  float* sA = smem;
  float* sB = smem + ts * ts;
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * ts + ty;
  int col = blockIdx.x * ts + tx;
  float sum = 0.0f;
  for (int t = 0; t < (n + ts - 1) / ts; ++t) {
    if (row < n && t * ts + tx < n) sA[ty * ts + tx] = A[row * n + t * ts + tx];
    else sA[ty * ts + tx] = 0.0f;
    if (col < n && t * ts + ty < n) sB[ty * ts + tx] = B[(t * ts + ty) * n + col];
    else sB[ty * ts + tx] = 0.0f;
    __syncthreads();
    for (int k = 0; k < ts; ++k) sum += sA[ty * ts + k] * sB[k * ts + tx];
    __syncthreads();
  }
  if (row < n && col < n) C[row * n + col] = sum;
}
void run(const float* a, const float* b, float* c, int n) {
  int ts = n % 2 ? 8 : 4;
  dim3 block(ts, ts), grid((n + ts - 1) / ts, (n + ts - 1) / ts);
  matmul<<<grid, block, 2 * ts * ts * sizeof(float)>>>(a, b, c, n, ts);
}
"""
BY_BLOCK = (
    DYNAMIC.replace("blockIdx.y * ts", "blockIdx.y * blockDim.y")
    .replace("int n, int ts)", "int n)")
    .replace("(a, b, c, n, ts)", "(a, b, c, n)")
)
BY_BLOCK = BY_BLOCK[: (_host := BY_BLOCK.index("void run"))].replace(" ts", " blockDim.x") + BY_BLOCK[_host:]
TEMPLATE = """
template <typename T, int TS>
__global__ void matmul(const T* A, const T* B, T* C, int n) {
  __shared__ T As[TS][TS];
  __shared__ T Bs[TS][TS];
  int row = blockIdx.y * TS + threadIdx.y;
  int col = blockIdx.x * TS + threadIdx.x;
  T sum = 0;
  for (int m = 0; m < (n + TS - 1) / TS; ++m) {
    As[threadIdx.y][threadIdx.x] = (row < n && m * TS + threadIdx.x < n) ? A[row * n + m * TS + threadIdx.x] : T(0);
    Bs[threadIdx.y][threadIdx.x] = (col < n && m * TS + threadIdx.y < n) ? B[(m * TS + threadIdx.y) * n + col] : T(0);
    __syncthreads();
    for (int k = 0; k < TS; ++k) sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
    __syncthreads();
  }
  if (row < n && col < n) C[row * n + col] = sum;
}
void run(const float* a, const float* b, float* c, int n) {
  constexpr int TS = 8;
  dim3 block(TS, TS), grid((n + TS - 1) / TS, (n + TS - 1) / TS);
  matmul<float, TS><<<grid, block>>>(a, b, c, n);
}
"""


@pytest.mark.compiler
@pytest.mark.parametrize("code", [FLAT, DYNAMIC, BY_BLOCK, TEMPLATE])
def test_tiles_that_are_flat_or_of_a_side_that_launches_tell(code: str) -> None:
    after = holds(SLUG, program(code, MAIN), (65,), (7,), (130,), relative=1e-5, absolute=1e-4)
    assert ("1009" not in after and "__shared__ float tile" in after) or "__shared__ T tile" in after


@pytest.mark.parametrize(
    ("code", "change"),
    [
        (FLAT, ("sb[threadIdx.x + BS * threadIdx.y]", "sb[threadIdx.x + 4 * threadIdx.y]")),  # rows overlap
        (FLAT, ("sb[k * BS + threadIdx.x]", "sb[k]")),
        (DYNAMIC, ("dim3 block(ts, ts)", "dim3 block(ts, 2 * ts)")),
        (DYNAMIC, ("(a, b, c, n, ts)", "(a, b, c, n, ts / 2)")),  # a side that is not the block's
        (DYNAMIC, ("t * ts + tx < n) sA", "t * ts + tx < n - ts) sA")),
        (DYNAMIC, ("float sum = 0.0f;", "float sum = 0.0f; ts = 4;")),
    ],
)
def test_flat_tiles_of_another_kind_stay(code: str, change: tuple[str, str]) -> None:
    text = code.replace(*change)
    assert text != code
    assert rewritten(SLUG, program(text, MAIN))[0].refused
