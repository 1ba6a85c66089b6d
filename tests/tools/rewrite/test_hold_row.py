# SPDX-License-Identifier: Apache-2.0
"""Rows kept in registers between passes: the same results to the last bit, at rows shorter and longer than are kept."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

N = "  int n = atoi(argv[1]);\n"
#: Fewer than a warp, a few more than are kept, many.
SIZES = ((3,), (289,), (1001,))
LANES = """
__device__ float warp_sum(float v) {
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);
  return v;
}
__device__ float warp_max(float v) {
  for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, d));
  return v;
}
"""
NORM = """
__global__ void norm(const float* in, const float* gamma, float* out, int cols) {
  const float* row = in + blockIdx.x * cols;
  float sum = 0.0f;
  for (int j = threadIdx.x; j < cols; j += 32) sum += row[j];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  float mean = sum / cols;
  for (int j = threadIdx.x; j < cols; j += 32) {
    // centred
    float x = row[j] - mean;  // by the mean
    out[blockIdx.x * cols + j] = x * gamma[j];
  }
}
"""
PROGRAMS = {
    "read twice": (
        NORM,
        N + "  Device<float> x(5 * n), g(n, 2), y(5 * n, 3); norm<<<5, 32>>>(x, g, y, n); y.show();",
    ),
    "stored and read again": (
        LANES
        + """
__global__ void softmax(const float* in, float* out, int rows, int cols) {
    int lane = threadIdx.x & 31;
    for (int r = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; r < rows; r += gridDim.x * (blockDim.x / 32)) {
        const float* x = in + r * cols;
        float* y = out + r * cols;
        float largest = -INFINITY;
        for (unsigned c = lane; c < cols; c += 32) if (x[c] > largest) largest = x[c];
        largest = warp_max(largest);
        float sum = 0.0f;
        for (unsigned c = lane; c < cols; c += 32) {
            y[c] = expf(x[c] - largest);
            sum += y[c];
        }
        sum = warp_sum(sum);
        for (unsigned c = lane; c < cols; c += 32) y[c] /= sum + 1e-9f;
    }
}
""",
        N + "  Device<float> x(7 * n), y(7 * n, 3); softmax<<<2, 64>>>(x, y, 7, n); y.show();",
    ),
    "in place, by a block, half precision": (
        """
#define THREADS 64
__global__ void rms(half* data, const half* weight, int dim) {
  __shared__ float parts[THREADS];
  float ss = 0.0f;
  for (int i = threadIdx.x; i < dim; i += THREADS) {
    int at = blockIdx.x * dim + i;
    float v = __half2float(data[at]);
    ss += v * v;
    data[at] = __float2half(v * 0.5f);
  }
  parts[threadIdx.x] = ss;
  __syncthreads();
  float sum = 0.0f;
  for (int k = 0; k < THREADS; ++k) sum += parts[k];
  for (int i = threadIdx.x; i < dim; i += THREADS) {
    int at = blockIdx.x * dim + i;
    data[at] = __float2half(__half2float(data[at]) * rsqrtf(sum / dim) * __half2float(weight[i]));
  }
}
""",
        N + "  Device<half> x(3 * n), w(n, 2); rms<<<3, THREADS>>>(x, w, n); x.show();",
    ),
    "stored under a condition, three times": (
        LANES
        + """
__global__ void clip(float *x, float *sums, int cols)
{
    float *row = x + (size_t)blockIdx.x * cols;
    float a = 0.0f, b = 0.0f;
    {
        for (int j = threadIdx.x; j < cols; j += blockDim.x)
        {
            if (row[j] < 0.0f)
                row[j] = -row[j];
            a += row[j];
        }
    }
    a = warp_sum(a);
    for (int j = threadIdx.x; j < cols; j += blockDim.x)
        if (row[j] > 2.0f && row[j] < a) row[j] -= 1.0f;
    __syncthreads();
    for (int j = threadIdx.x; j < cols; j += blockDim.x)
        b += row[j] * a;
    b = warp_sum(b);
    if (threadIdx.x == 0) sums[blockIdx.x] = b;
}
""",
        N + "  Device<float> x(4 * n), s(4, 2); clip<<<4, 32>>>(x, s, n); s.show(); x.show();",
    ),
    "rows that data begins, a gathered element": (
        LANES
        + """
__global__ void weigh(const int* begin, const int* column, const float* value, const float* x, float* y, float* w) {
  const int from = begin[blockIdx.x], count = begin[blockIdx.x + 1] - from;
  float sum = 0.0f;
  for (int k = threadIdx.x; k < count; k += 32) sum += x[column[from + k]] * value[from + k];
  sum = warp_sum(sum);
  for (int k = threadIdx.x; k < count; k += 32) w[blockIdx.x * 32 + k % 32] = x[column[from + k]] * sum;
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
""",
        N
        + "  std::vector<int> s = {0, n / 3, n / 3, n}, c(n); for (int i = 0; i < n; ++i) c[i] = i * 5 % n;\n"
        "  Device<int> d(4), e(n);\n"
        "  cudaMemcpy(d.data, s.data(), 16, cudaMemcpyHostToDevice);\n"
        "  cudaMemcpy(e.data, c.data(), 4 * n, cudaMemcpyHostToDevice);\n"
        "  Device<float> v(n), x(n, 2), y(3, 3), w(96, 4); weigh<<<3, 32>>>(d, e, v, x, y, w); y.show();",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled(2)
def test_rows_are_kept(name: str) -> None:
    after = holds("hold-row", program(*PROGRAMS[name]), *SIZES)
    assert "Held[" in after or "_held[" in after
    assert rewritten("hold-row", after)[0].refused


def test_what_a_later_pass_overwrites_is_stored_once() -> None:
    after = rewritten("hold-row", PROGRAMS["stored and read again"][0])[1]
    assert "yHeld[h] = expf(xHeld[h] - largest);" in after
    assert "y[c] = yHeld[h] / (sum + 1e-9f);" in after
    assert "y[c] = yHeld[h];" not in after


def test_what_no_later_pass_overwrites_is_stored_at_once() -> None:
    after = rewritten("hold-row", PROGRAMS["stored under a condition, three times"][0])[1]
    assert after.count("row[j] = rowHeld[h];") == 2


def test_comments_stay() -> None:
    after = rewritten("hold-row", NORM)[1]
    assert after.count("// centred\n") == 2
    assert "float x = rowHeld[h] - mean;  // by the mean\n" in after


def test_buffers_may_overlap_where_nothing_says_otherwise() -> None:
    assert rewritten("hold-row", NORM)[0].caveat
    apart = NORM.replace("const float* in", "const float* __restrict__ in").replace(
        "float* out", "float* __restrict__ out"
    )
    assert not rewritten("hold-row", apart)[0].caveat
    launched = NORM + "void run(float* x, float* g) { norm<<<5, 32>>>(x, g, x, 7); }\n"
    assert rewritten("hold-row", launched)[0].refused


SECOND = "for (int j = threadIdx.x; j < cols; j += 32) {"
REFUSED = {
    "one thread": NORM.replace("j = threadIdx.x", "j = 0").replace("j += 32", "++j"),
    "the whole grid": NORM.replace("j = threadIdx.x", "j = blockIdx.x * 32 + threadIdx.x"),
    "another step": NORM.replace(SECOND, SECOND.replace("32", "16")),
    "another end": NORM.replace(SECOND, SECOND.replace("cols", "cols - 1")),
    "an end that changes": NORM.replace("float mean", "cols /= 2; float mean"),
    "a row that changes": NORM.replace("float mean", "row += cols; float mean"),
    "another element": NORM.replace("float x = row[j]", "float x = row[j + 1]"),
    "columns": NORM.replace("row[j]", "row[j * 32]"),
    "not every element": NORM.replace("sum += row[j]", "if (cols > 5) sum += row[j]"),
    "not every element, by an operator": NORM.replace(
        "sum += row[j]", "sum += cols > 5 && row[j] > 0 ? 1 : 0"
    ),
    "left early": NORM.replace("sum += row[j]", "{ if (cols < 5) break; sum += row[j]; }"),
    "a pragma": NORM.replace(SECOND, "\n#pragma unroll 4\n  " + SECOND),
    "a barrier inside": NORM.replace("// centred", "__syncthreads();"),
    "shown to other blocks": NORM.replace("float mean", "__threadfence(); float mean"),
    "its address": NORM.replace("sum += row[j]", "sum += __ldg(&row[j])"),
    "stored elsewhere too": NORM.replace("const float* in", "float* in")
    .replace("const float* row", "float* row")
    .replace("float mean", "row[0] = 1.0f; float mean"),
    "given away": NORM.replace("const float* in", "float* in")
    .replace("const float* row", "float* row")
    .replace("float mean", "change(row); float mean"),
    "volatile": NORM.replace("const float*", "const volatile float*"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_passes_are_left_alone(name: str) -> None:
    assert rewritten("hold-row", REFUSED[name])[0].refused
