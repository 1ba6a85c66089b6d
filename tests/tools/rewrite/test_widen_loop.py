# SPDX-License-Identifier: Apache-2.0
"""Loops over lanes and over the grid with vectors: the same results at odd sizes and addresses."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

N = "  int n = atoi(argv[1]), o = atoi(argv[2]);\n"
ROWS = """
__global__ void rows(const float* in, float* out, int cols) {
  const float* row = in + blockIdx.x * cols;
  float sum = 0.0f;
  for (int j = threadIdx.x; j < cols; j += blockDim.x) {
    sum += row[j];
  }
  atomicAdd(&out[blockIdx.x], sum);
}
"""
PROGRAMS = {
    "rows": (ROWS, N + "  Device<float> x(5 * n + 8), y(5, 2); rows<<<5, 32>>>(x + o, y, n); y.show();"),
    "a while, counted in bins": (
        """
__global__ void bins(const unsigned char* data, unsigned* counts, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  int stride = blockDim.x * gridDim.x;
  while (i < n) {
    atomicAdd(&counts[data[i] & 7], 1u);
    i += stride;
  }
}
""",
        N
        + "  Device<unsigned char> x(n + 8); Device<unsigned> y(8, 2); bins<<<2, 64>>>(x + o, y, n); y.show();",
    ),
    "a template, its variable declared before": (
        """
template <typename T>
__global__ void bias(T* out, const T* in, const T* b, int rows, int cols) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  int total = rows * cols;
  for (; idx < total; idx += blockDim.x * gridDim.x) out[idx] = in[idx] + b[idx % cols];
}
""",
        N + "  Device<float> x(n * 3 + 8), y(n * 3 + 8, 2), b(3, 4);\n"
        "  bias<float><<<2, 64>>>(y, x + o, b, n, 3); y.show();",
    ),
    "a type that launches leave to deduction, up to the last": (
        """
template <typename scalar_t>
__global__ void lower(scalar_t* out, const scalar_t* in, int cols) {
  const int row = blockIdx.x;
  for (int j = threadIdx.x; j <= row; j += blockDim.x) out[row * cols + j] = in[row * cols + j];
}
""",
        N
        + "  __nv_bfloat16 *to, *from; Device<__nv_bfloat16> x(n * 9 + 8), y(n * 9 + 8, 2); to = y, from = x + o;\n"
        "  lower<<<n < 9 ? n : 9, 32>>>(to, from, n); y.show();",
    ),
    "the grid, bfloat16": (
        """
__global__ void add(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int n) {
  int stride = blockDim.x * gridDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
    c[i] = __float2bfloat16(__bfloat162float(a[i]) + __bfloat162float(b[i]));
}
""",
        N
        + "  Device<__nv_bfloat16> a(n + 8), b(n + 8, 2), c(n + 8, 3); add<<<2, 64>>>(a, b + o, c, n); c.show();",
    ),
    "lanes of a warp, two loops, one in place": (
        """
__global__ void scale(half* x, const half* weight, int rows, int width) {
  const int lane = threadIdx.x % 32;
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  half* r = x + (size_t)row * width;
  float ss = 0.0f;
  for (int i = lane; i < width; i += 32) {
    float v = __half2float(r[i]);
    ss += v * v;
  }
  for (int d = 16; d > 0; d /= 2) ss += __shfl_xor_sync(0xffffffff, ss, d);
  for (int i = lane; i < width; i += 32)
    r[i] = __float2half(__half2float(r[i]) * rsqrtf(ss + 1.0f) * __half2float(weight[i]));
}
""",
        N + "  Device<half> x(3 * n + 8), w(n, 2); scale<<<1, 96>>>(x + o, w, 3, n); x.show();",
    ),
    "stored before it is read": (
        """
__global__ void twice(const double* a, double* b, double* c, unsigned n) {
  for (unsigned i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += gridDim.x * blockDim.x) {
    b[i] = 2.0 * a[i];
    if (b[i] > 1.0) c[i] += b[i];
  }
}
""",
        N
        + "  Device<double> a(n + 8), b(n + 8, 2), c(n + 8, 3); twice<<<2, 32>>>(a, b + o, c, n); b.show(); c.show();",
    ),
    "a segment that data begins": (
        """
__global__ void segments(const int* start, const float* values, float* out, int n) {
  int lane = threadIdx.x & 31;
  int row = blockIdx.x;
  if (row >= n) return;
  float sum = 0.0f;
  for (int i = start[row] + lane; i < start[row + 1]; i += 32) sum += values[i];
  atomicAdd(&out[row], sum);
}
""",
        N + "  std::vector<int> s(4); for (int i = 0; i < 4; ++i) s[i] = i * n / 3; Device<int> d(4);\n"
        "  cudaMemcpy(d.data, s.data(), 16, cudaMemcpyHostToDevice);\n"
        "  Device<float> x(n + 8), y(3, 2); segments<<<3, 32>>>(d, x + o, y, 3); y.show();",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled(3)
def test_data_is_walked_in_vectors(name: str) -> None:
    after = holds(
        "widen-loop", program(*PROGRAMS[name]), (1001, 0), (1001, 1), (3, 4), (64, 2), relative=2e-3
    )
    assert "reinterpret_cast" in after
    assert rewritten("widen-loop", after)[0].refused


REFUSED = {
    "one by one": ROWS.replace("int j = threadIdx.x", "int j = 0").replace("j += blockDim.x", "++j"),
    "chunks": ROWS.replace("int j = threadIdx.x", "int j = threadIdx.x * cols").replace(
        "j += blockDim.x", "j++"
    ),
    "the threads of several rows": ROWS.replace(
        "int j = threadIdx.x", "int j = threadIdx.x + cols * threadIdx.y"
    ),
    "left early": ROWS.replace("sum += row[j]", "if (row[j] < 0) break; sum += row[j]"),
    "columns": ROWS.replace("row[j]", "row[j * cols]"),
    "an array of the thread's own": ROWS.replace("float sum", "float kept[4] = {}; float sum").replace(
        "sum += row[j]", "kept[j / 32] += row[j]; sum += kept[j / 32]"
    ),
    "parts of the grid that each block keeps": ROWS.replace(
        "atomicAdd(&out[blockIdx.x], sum)", "out[blockIdx.x] = sum"
    )
    .replace("int j = threadIdx.x", "int j = blockIdx.x * blockDim.x + threadIdx.x")
    .replace("j += blockDim.x", "j += gridDim.x * blockDim.x"),
    "a barrier": ROWS.replace("sum += row[j]", "sum += row[j]; __syncthreads()"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_loops_are_left_alone(name: str) -> None:
    assert rewritten("widen-loop", REFUSED[name])[0].refused


OF_TEMPLATE = """
template <typename T> __global__ void twice(T* out, const T* in, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = (T)(2.0f * (float)in[blockIdx.x * n + i]);
}
template <typename T> void launch(T* out, const T* in, int rows, int n) { twice<T><<<rows, 128>>>(out, in, n); }
void run(int n) {
  half *out, *in;
  CALL;
}
"""


@pytest.mark.parametrize("call", ["launch<half>(out, in, 4, n)", "launch(out, in, 4, n)"])
def test_a_type_is_what_calls_of_the_launching_template_give(call: str) -> None:
    code = OF_TEMPLATE.replace("CALL", call)
    after = rewritten("widen-loop", code)[1]
    assert "kVector = 8;" in after and "alignas(16) T outPart[kVector];" in after
    other = code + "void also(int n) { float *out, *in; launch<float>(out, in, 4, n); }\n"
    assert rewritten("widen-loop", other)[0].refused


FROM_ONE = """
__global__ void largest(float* out, const float* in, int n) {
  float most = in[blockIdx.x * n];
  for (int i = 1 + threadIdx.x; i < n; i += blockDim.x) most = fmaxf(most, in[blockIdx.x * n + i]);
  out[blockIdx.x * blockDim.x + threadIdx.x] = most;
}
"""


def test_vectors_begin_where_rows_do() -> None:
    after = rewritten("widen-loop", FROM_ONE)[1]
    assert "int first = kVector * threadIdx.x;" in after and "first >= 1 &&" in after
    assert "for (int i = first < 1 ? 1 : first; i < n" in after
