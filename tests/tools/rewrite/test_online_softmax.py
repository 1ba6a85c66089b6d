# SPDX-License-Identifier: Apache-2.0
"""Maximum and sum of exponentials in one pass: the same results, for lanes without elements and masked ones too."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

N = "  int n = atoi(argv[1]);\n"
#: Fewer than the threads that walk a row, and many.
SIZES = ((1,), (3,), (289,), (1001,))
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
SOFTMAX = (
    LANES
    + """
__global__ void softmax(const float* in, float* out, int cols) {
  const float* row = in + blockIdx.x * cols;
  const int lane = threadIdx.x % 32;
  float most = -INFINITY;
  // the largest
  for (int j = lane; j < cols; j += 32) {
    most = fmaxf(most, row[j]);
  }
  most = warp_max(most);
  float sum = 0.0f;
  for (int i = lane; i < cols; i += 32) sum += expf(row[i] - most);  // less it
  sum = warp_sum(sum);
  for (int j = lane; j < cols; j += 32) out[blockIdx.x * cols + j] = expf(row[j] - most) / sum;
}
"""
)
RUN = "  Device<float> x(5 * n), y(5 * n, 3); softmax<<<5, 32>>>(x, y, n); y.show();"
#: Every third element is masked, and all that some lanes have.
MASKED = (
    "  std::vector<float> h(5 * n);\n"
    "  for (int i = 0; i < 5 * n; ++i) h[i] = i % n % 32 < 9 && i % n ? -INFINITY : (i * 37 % 101 - 50) * 0.3f;\n"
    "  Device<float> x(5 * n), y(5 * n, 3);\n"
    "  cudaMemcpy(x.data, h.data(), 20 * n, cudaMemcpyHostToDevice); softmax<<<5, 32>>>(x, y, n); y.show();"
)
PROGRAMS = {
    "a warp": (SOFTMAX, N + RUN),
    "masked": (SOFTMAX, N + MASKED),
    "masked from the start": (SOFTMAX, N + MASKED.replace("i % n % 32 < 9 && i % n", "i % n < n / 2")),
    "the first element to begin with, half precision": (
        LANES
        + """
__global__ void loss(const half *logits, const int *labels, float *losses, int classes)
{
    int b = blockIdx.x, lane = threadIdx.x & 31;
    float s = 0, m = __half2float(logits[b * classes]);
    for (int c = 1 + lane; c < classes; c += 32)
    {
        if (m < __half2float(logits[b * classes + c]))
            m = __half2float(logits[b * classes + c]);
    }
    m = warp_max(m);
    for (int c = lane; c < classes; c += 32)
        s += __expf(__half2float(logits[b * classes + c]) - m);
    s = warp_sum(s);
    if (lane == 0) losses[b] = m + logf(s) - __half2float(logits[b * classes + labels[b] % classes]);
}
""",
        N + "  Device<half> x(5 * n); std::vector<int> h = {0, 1, 2, 3, 4}; Device<int> l(5);\n"
        "  cudaMemcpy(l.data, h.data(), 20, cudaMemcpyHostToDevice);\n"
        "  Device<float> y(5, 3); loss<<<5, 32>>>(x, l, y, n); y.show();",
    ),
    "a block, through shared memory": (
        """
__global__ void sums(const double* in, double* out, int rows, int cols) {
  __shared__ double parts[64];
  for (int r = blockIdx.x; r < rows; r += gridDim.x) {
    double m = -1e300, s = 0.0;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) m = in[r * cols + j] > m ? in[r * cols + j] : m;
    parts[threadIdx.x] = m;
    __syncthreads();
    for (int k = 0; k < 64; ++k) m = parts[k] > m ? parts[k] : m;
    __syncthreads();
    for (int j = threadIdx.x; j < cols; j += blockDim.x) s += exp(in[r * cols + j] - m);
    parts[threadIdx.x] = s;
    __syncthreads();
    double total = 0.0;
    for (int k = 0; k < 64; ++k) total += parts[k];
    if (threadIdx.x == 0) out[r] = m + log(total);
    __syncthreads();
  }
}
""",
        N + "  Device<double> x(5 * n), y(5, 3); sums<<<2, 64>>>(x, y, 5, n); y.show();",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled(2)
def test_one_pass_does(name: str) -> None:
    after = holds("online-softmax", program(*PROGRAMS[name]), *SIZES, relative=2e-5, absolute=1e-7)
    assert " == m" in after
    assert rewritten("online-softmax", after)[0].refused


def test_a_row_without_elements_sums_to_nothing() -> None:
    last = "  for (int j = lane; j < cols; j += 32) out"
    text = SOFTMAX[: SOFTMAX.index(last)] + "  out[blockIdx.x] = sum;\n}\n"
    run = "  Device<float> x(5 * n + 1), y(5, 3); softmax<<<5, 32>>>(x, y, n); y.show();"
    after = holds("online-softmax", program(text, N + run), (0,), (40,), relative=2e-5)
    assert "if (own != most) sum *= expf(own - most);" in after


def test_comments_stay() -> None:
    after = rewritten("online-softmax", SOFTMAX.replace("{\n    most", "{\n    // so far\n    most"))[1]
    assert "// so far" in after
    assert "// the largest" in after
    assert "// less it" in after


ADDED = "sum += expf(row[i] - most);"
REFUSED = {
    "one thread": SOFTMAX.replace("= lane", "= 0").replace("+= 32", "+= 1"),
    "a minimum": SOFTMAX.replace("most = fmaxf", "most = fminf"),
    "another row": SOFTMAX.replace(ADDED, ADDED.replace("row[i]", "in[i]")),
    "another maximum": SOFTMAX.replace(ADDED, "sum += expf(row[i] - cols);"),
    "less is added": SOFTMAX.replace("int i = lane", "int i = lane + 1"),
    "stored": SOFTMAX.replace(ADDED, f"{{ out[i] = row[i]; {ADDED} }}"),
    "something to begin with": SOFTMAX.replace("sum = 0.0f", "sum = 1.0f"),
    "used between": SOFTMAX.replace("float sum = 0.0f;", "float sum = 0.0f; sum = sum + 1.0f;"),
    "left between": SOFTMAX.replace("float sum = 0.0f;", "float sum = 0.0f; if (most > 3.0f) return;"),
    "two types": SOFTMAX.replace("float sum", "double sum"),
    "an unknown function": SOFTMAX.replace("row[j])", "draw(row[j]))").replace("row[i]", "draw(row[i])"),
    "an element left out": SOFTMAX.replace(
        "int j = lane; j < cols; j += 32) {", "int j = 1 + lane; j < cols; j += 32) {"
    ),
    "another element to begin with": SOFTMAX.replace(
        "int j = lane; j < cols; j += 32) {", "int j = 1 + lane; j < cols; j += 32) {"
    ).replace("-INFINITY", "row[1]"),
    "a row that changes": SOFTMAX.replace("float sum = 0.0f;", "float sum = 0.0f; row += cols;"),
    "memory written between": SOFTMAX.replace("float sum = 0.0f;", "float sum = 0.0f; out[lane] = most;"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_passes_are_left_alone(name: str) -> None:
    assert REFUSED[name] != SOFTMAX
    assert rewritten("online-softmax", REFUSED[name])[0].refused


COLUMNS = """
__global__ void channels(const float* in, float* out, int C, int HW) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= HW) return;
  float m = BEGIN;
  for (int c = FIRST; c < C; c++) m = fmaxf(m, in[c * HW + p]);
  float s = 0;
  for (int k = 0; k < C; ++k) s += expf(in[k * HW + p] - m);
  for (int c = 0; c < C; c++) out[c * HW + p] = expf(in[c * HW + p] - m) / s;
}
"""
COLUMNS_MAIN = (
    "  int n = atoi(argv[1]); Device<float> x(33 * n), y(33 * n, 3); channels<<<(n + 63) / 64, 64>>>(x, y, 33, n);\n"
    "  y.show(); channels<<<(n + 63) / 64, 64>>>(x, y, 1, n); y.show();"
)


@pytest.mark.compiler
@pytest.mark.parametrize("begin", ["-INFINITY", "-1e30f"])
def test_a_thread_that_walks_a_column_by_itself(begin: str) -> None:
    code = COLUMNS.replace("BEGIN", begin).replace("FIRST", "0")
    after = holds("online-softmax", program(code, COLUMNS_MAIN), (70,), (5,), relative=1e-5)
    assert after.count("for (int") == code.count("for (int") - 1 and "of the thread's elements" not in after
    for other in (
        code.replace("c = 0; c < C; c++) m", "c = 0; c < HW; c++) m"),
        code.replace("= 1; c <", "= 2; c <"),
    ):
        assert other == code or rewritten("online-softmax", program(other, COLUMNS_MAIN))[0].refused
