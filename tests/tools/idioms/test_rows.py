# SPDX-License-Identifier: Apache-2.0
"""Rows that are read once, in vectors that threads keep: programs print the same, at any length and alignment."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten
from tests.tools.rewrite.row_programs import RC, ROWS
from tests.tools.rewrite.test_hold_row import PROGRAMS as KEPT

#: Rows longer than a block keeps, of odd length, and shorter than a warp.
SIZES = ((2, 5000), (3, 1001), (5, 7))
PROGRAMS = {name: ROWS[name] for name in ("softmax by pointers", "a template in half precision")} | {
    "log softmax": (
        """
__global__ void log_softmax(const float* x, float* y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  const float* in = x + (long long)r * cols;
  float m = -1e30f;
  for (int i = 0; i < cols; ++i) m = max(m, in[i]);
  float s = 0.f;
  for (int i = 0; i < cols; ++i) s += expf(in[i] - m);
  float l = logf(s) + m;
  for (int i = 0; i < cols; ++i) y[(long long)r * cols + i] = in[i] - l;
}
""",
        RC + "  Device<float> x(rows * cols), y(rows * cols, 2); log_softmax<<<(rows + 127) / 128, "
        "128>>>(x, y, rows, cols); y.show();",
    ),
    "normalise in place": (
        """
__global__ void l2norm(float* x, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {
    float ss = 1e-6f;
    for (int i = 0; i < cols; i++) ss += x[r * cols + i] * x[r * cols + i];
    float inv = rsqrtf(ss);
    for (int i = 0; i < cols; i++) x[r * cols + i] *= inv;
  }
}
""",
        RC + "  Device<float> x(rows * cols); l2norm<<<(rows + 127) / 128, 128>>>(x, rows, cols); x.show();",
    ),
    "variance by deviations, doubles": (
        """
__global__ void zscore(const double* x, double* y, int rows, int cols) {
  int r = threadIdx.x + blockIdx.x * blockDim.x;
  if (r >= rows) return;
  double mean = 0, var = 0;
  for (int i = 0; i < cols; i++) mean += x[(size_t)r * cols + i];
  mean /= cols;
  for (int i = 0; i < cols; i++) { double d = x[(size_t)r * cols + i] - mean; var += d * d; }
  double sd = sqrt(var / cols) + 1e-9;
  for (int i = 0; i < cols; i++) y[(size_t)r * cols + i] = (x[(size_t)r * cols + i] - mean) / sd;
}
""",
        RC + "  Device<double> x(rows * cols), y(rows * cols, 3); zscore<<<(rows + 63) / 64, 64>>>(x, "
        "y, rows, cols); y.show();",
    ),
    "layer norm, its mean and variance in one pass, a residual": (
        """
__global__ void layerNorm(const float* x, const float* skip, const float* g, const float* b, float* out, int rows,
                          int cols) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {
    double total = 0.0, squares = 0.0;
    for (int c = 0; c < cols; c++) {
      const float v = x[r * cols + c] + skip[r * cols + c];
      total += v;
      squares += v * v;
    }
    const float mean = total / cols, rstd = rsqrtf((float)(squares / cols) - mean * mean + 1e-5f);
    for (int c = 0; c < cols; c++) {
      out[r * cols + c] = (x[r * cols + c] + skip[r * cols + c] - mean) * rstd * g[c] + b[c];
    }
  }
}
""",
        RC + "  Device<float> x(rows * cols), s(rows * cols, 2), g(cols, 3), b(cols, 4), y(rows * cols, 5);\n"
        "  layerNorm<<<(rows + 63) / 64, 64>>>(x, s, g, b, y, rows, cols); y.show();",
    ),
    "rows of bfloat16 to bytes by their largest": (
        """
__global__ void quantize(const __nv_bfloat16 *in, signed char *out, float *scale, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float most = 0.0f;
    for (int j = 0; j < cols; ++j) {
        float v = fabsf(__bfloat162float(in[(size_t)row * cols + j]));
        if (v > most) most = v;
    }
    float by = most > 0.0f ? 127.0f / most : 0.0f;
    for (int j = 0; j < cols; ++j)
        out[(size_t)row * cols + j] = (signed char)rintf(__bfloat162float(in[(size_t)row * cols + j]) * by);
    scale[row] = most;
}
""",
        RC
        + "  Device<__nv_bfloat16> x(rows * cols); Device<signed char> q(rows * cols, 2); Device<float> s(rows, 3);\n"
        "  quantize<<<(rows + 31) / 32, 32>>>(x, q, s, rows, cols); q.show(); s.show();",
    ),
}
BLOCKS = {
    "warps with shuffles": (
        """
__global__ void rms(const __half* x, const __half* w, __half* y, int rows, int cols) {
  int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (warp >= rows) return;
  const __half* row = x + (size_t)warp * cols;
  float s = 0.0f;
  for (int i = lane; i < cols; i += 32) { float v = __half2float(row[i]); s += v * v; }
  for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
  float r = rsqrtf(s / cols + 1e-6f);
  for (int i = lane; i < cols; i += 32) y[(size_t)warp * cols + i] =
      __float2half(__half2float(row[i]) * r * __half2float(w[i]));
}
""",
        RC + "  Device<__half> x(rows * cols), w(cols, 2), y(rows * cols, 3); rms<<<(rows + 3) / 4, "
        "128>>>(x, w, y, rows, cols); y.show();",
    ),
    "outputs that fold their row each": (
        """
__global__ void meanDiff(const float* x, float* y, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (c >= cols || r >= rows) return;
  float mean = 0;
  for (int j = 0; j < cols; ++j) mean += x[r * cols + j];
  mean /= cols;
  y[r * cols + c] = x[r * cols + c] - mean;
}
""",
        RC + "  Device<float> x(rows * cols), y(rows * cols, 3); meanDiff<<<dim3((cols + 15) / 16, "
        "(rows + 15) / 16), dim3(16, 16)>>>(x, y, rows, cols); y.show();",
    ),
    "one thread of a block folds its row": (
        """
__global__ void rms(half* out, const half* in, const half* weight, int dim, float eps) {
  __shared__ float scale;
  const half* x = in + blockIdx.x * (size_t)dim;
  half* o = out + blockIdx.x * (size_t)dim;
  if (threadIdx.x == 0) {
    float ss = 0.0f;
    for (int i = 0; i < dim; i++) {
      float v = __half2float(x[i]);
      ss += v * v;
    }
    scale = rsqrtf(ss / dim + eps);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < dim; i += blockDim.x)
    o[i] = __float2half(__half2float(x[i]) * scale * __half2float(weight[i]));
}
""",
        RC + "  Device<half> x(rows * cols), w(cols, 2), y(rows * cols, 3);\n"
        "  rms<<<rows, 128>>>(y, x, w, cols, 1e-5f); y.show();",
    ),
    "a tree in shared memory": (
        """
__global__ void softmaxBlock(const float* in, float* out, int cols) {
  __shared__ float part[128];
  int row = blockIdx.x, tid = threadIdx.x;
  float largest = -1e30f;
  for (int i = tid; i < cols; i += blockDim.x) largest = fmaxf(largest, in[row * cols + i]);
  part[tid] = largest;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) part[tid] = fmaxf(part[tid], part[tid + s]);
    __syncthreads();
  }
  largest = part[0];
  __syncthreads();
  float sum = 0.0f;
  for (int i = tid; i < cols; i += blockDim.x) {
    float e = expf(in[row * cols + i] - largest);
    out[row * cols + i] = e;
    sum += e;
  }
  part[tid] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) part[tid] += part[tid + s];
    __syncthreads();
  }
  for (int i = tid; i < cols; i += blockDim.x) out[row * cols + i] /= part[0];
}
""",
        RC
        + "  Device<float> x(rows * cols), y(rows * cols, 3); softmaxBlock<<<rows, 128>>>(x, y, cols); y.show();",
    ),
}


@pytest.mark.parametrize("slug", ["row-in-registers", "row-in-warp"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled(5)
def test_a_thread_a_row_becomes_vectors_that_are_kept(slug: str, name: str) -> None:
    after = holds(slug, program(*PROGRAMS[name]), *SIZES, relative=2e-3, absolute=1e-4)
    assert "kHeldVectors" in after
    assert rewritten(slug, after)[0].refused


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_a_row_keeps_vectors(name: str) -> None:
    after = holds("row-in-registers", program(*BLOCKS[name]), *SIZES, relative=2e-3, absolute=1e-4)
    assert "kHeldVectors" in after
    assert "reinterpret_cast<const " in after
    assert rewritten("row-in-registers", after)[0].refused


@pytest.mark.parametrize(
    "name", ["read twice", "stored and read again", "stored under a condition, three times"]
)
def test_passes_of_warps_and_blocks_keep_vectors(name: str) -> None:
    sizes = ((3,), (289,), (1001,))
    text = program(*KEPT[name])
    # vectors deal elements out to other lanes than before, so that sums come in another order
    assert "kHeldVectors" in holds("row-in-registers", text, *sizes, relative=1e-5, absolute=1e-5)


def test_a_row_that_is_walked_once_is_left_alone() -> None:
    code = """
__global__ void sums(const float* x, float* y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float s = 0.0f;
  for (int c = 0; c < cols; c++) s += x[r * cols + c];
  y[r] = s;
}
"""
    main = RC + "  Device<float> x(rows * cols), y(rows); sums<<<(rows + 63) / 64, 64>>>(x, y, rows, cols);"
    assert rewritten("row-in-registers", program(code, main))[0].refused
    assert rewritten("row-in-warp", program(code, main))[0].refused


def test_what_is_kept_by_its_own_index_is_left_alone() -> None:
    result, _ = rewritten("row-in-registers", program(*KEPT["in place, by a block, half precision"]))
    assert "side by side" in result.refused
