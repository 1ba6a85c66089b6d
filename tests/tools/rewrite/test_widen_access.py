# SPDX-License-Identifier: Apache-2.0
"""Elementwise kernels with vectors: the same results at odd sizes, at odd addresses, in every type."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

N = "  int n = atoi(argv[1]), o = atoi(argv[2]);\n"
SAXPY = """
__global__ void saxpy(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    y[i] = a * x[i] + y[i];
  }
}
void run(const float* x, float* y, int n) { saxpy<<<(n + 255) / 256, 256>>>(x, y, 2.0f, n); }
"""
PROGRAMS = {
    "rows a pitch in bytes apart": (
        """
__global__ void add(const float* a, const float* b, float* c, size_t pitch, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const float* ra = (const float*)((const char*)a + y * pitch);
  const float* rb = (const float*)((const char*)b + y * pitch);
  float* rc = (float*)((char*)c + y * pitch);
  rc[x] = ra[x] + rb[x];
}
""",
        N + "  Device<float> a(4 * n + 40), b(4 * n + 40, 2), c(4 * n + 40, 3);\n"
        "  add<<<dim3((n + 31) / 32, 2), dim3(32, 2)>>>(a + o, b + o, c + o, (n + 3) * 4, n, 3); c.show();",
    ),
    "four pixels a thread by hand": (
        """
__global__ void gray4(const unsigned char* rgb, unsigned char* gray, int n) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (i + 3 >= n) return;
  gray[i] = (2 * rgb[3 * i] + 5 * rgb[3 * i + 1] + rgb[3 * i + 2]) / 8;
  gray[i + 1] = (2 * rgb[3 * i + 3] + 5 * rgb[3 * i + 4] + rgb[3 * i + 5]) / 8;
  gray[i + 2] = (2 * rgb[3 * i + 6] + 5 * rgb[3 * i + 7] + rgb[3 * i + 8]) / 8;
  gray[i + 3] = (2 * rgb[3 * i + 9] + 5 * rgb[3 * i + 10] + rgb[3 * i + 11]) / 8;
}
""",
        N + "  Device<unsigned char> x(3 * n + 32), y(n + 32, 3);\n"
        "  gray4<<<(n / 4 + 63) / 64, 64>>>(x + o, y + o, n); y.show();",
    ),
    "what is made of a variable that is set again": (
        """
__global__ void rows(const float* x, float* y, int w, int h) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  int r = blockIdx.y;
  if (c >= w || r >= h) return;
  int above = r - 1;
  float part = r - above * 0.5f;
  above = max(above, 0);
  y[r * w + c] = x[r * w + c] * part + above;
}
""",
        "  int n = atoi(argv[1]), o = atoi(argv[2]); Device<float> x(3 * n + 8), y(3 * n + 8, 3);\n"
        "  rows<<<dim3((n + 63) / 64, 3), 64>>>(x + o, y + o, n, 3); y.show();",
    ),
    "float, in place, data at an offset": (
        SAXPY,
        N + "  Device<float> x(n + 8), y(n + 8, 2); run(x + o, y + o, n); y.show();",
    ),
    "half, helper, locals": (
        """
__device__ float gelu(float v) { return 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v))); }
__global__ void activate(const __half* __restrict__ in, __half* __restrict__ out, unsigned int count)
{
    const unsigned int idx = threadIdx.x + blockIdx.x * blockDim.x;
    if (idx >= count) return;
    float v = __half2float(in[idx]);
    if (v > 3.0f) v = 3.0f;
    out[idx] = __float2half(gelu(v));
}
""",
        N + "  Device<__half> a(n + 8), b(n + 8, 2); int t = 128;\n"
        "  activate<<<(n + t - 1) / t, t>>>(a + o, b + o, n); b.show();",
    ),
    "interleaved channels": (
        """
__global__ void swap_channels(const unsigned char* rgb, unsigned char* bgr, float* gray, int pixels) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= pixels) return;
  unsigned char r = rgb[3 * p], b = rgb[p * 3 + 2];
  bgr[3 * p] = b;
  bgr[3 * p + 1] = rgb[3 * p + 1];
  bgr[3 * p + 2] = r;
  gray[p] = 0.3f * r + 0.6f * rgb[3 * p + 1] + 0.1f * b;
}
""",
        N + "  Device<unsigned char> a(3 * n + 8), b(3 * n + 8, 2); Device<float> g(n, 3);\n"
        "  swap_channels<<<(n + 63) / 64, 64>>>(a + o, b, g, n); b.show(); g.show();",
    ),
    "bytes and floats, rows of an image": (
        """
__global__ void gray(const unsigned char* r, const unsigned char* g, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) {
    int idx = y * width + x;
    out[idx] = 0.3f * r[idx] + 0.6f * g[y * width + x];
  }
}
""",
        N + "  int w = 37 + o; Device<unsigned char> r(w * n), g(w * n, 2); Device<float> f(w * n, 3);\n"
        "  dim3 b(16, 16), d((w + 15) / 16, (n + 15) / 16); gray<<<d, b>>>(r, g, f, w, n); f.show();",
    ),
    "another index beside the own one": (
        """
template <typename T>
__global__ void bias_add(T* out, const T* in, const T* bias, int n, int c) {
  size_t tid = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (tid < n) out[tid] = in[tid] + bias[tid % c];
}
""",
        N + "  Device<int> a(n + 8), b(7, 2), c(n + 8, 3);\n"
        "  bias_add<int><<<(n + 63) / 64, 64>>>(c + o, a, b, n, 7); c.show();",
    ),
    "a condition around what is also read": (
        """
__global__ void clip(double* v, const double* limit, int n) {
  int i = blockDim.x * blockIdx.x + threadIdx.x;
  if (i < n) {
    if (v[i] > limit[i]) { v[i] = limit[i]; }
  }
}
""",
        N + "  Device<double> v(n + 8), l(n + 8, 2); clip<<<(n + 255) / 256, 256>>>(v + o, l, n); v.show();",
    ),
    "a variable of each element that is set": (
        """
__global__ void poly(const float* x, float c, float* y, int n, int degree) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float sum = 0.0f, power;
    power = 1.0f;
    for (int k = 0; k < degree; ++k) { sum += c * k * power; power *= x[i]; }
    y[i] = sum;
  }
}
""",
        N
        + "  Device<float> x(n + 8), y(n + 8, 3); poly<<<(n + 63) / 64, 64>>>(x, 0.5f, y + o, n, 4); y.show();",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled(3)
def test_elements_are_accessed_in_vectors(name: str) -> None:
    after = holds(
        "widen-access", program(*PROGRAMS[name]), (1001, 0), (1001, 1), (3, 4), (1024, 2), relative=1e-6
    )
    assert "reinterpret_cast" in after
    assert rewritten("widen-access", after)[0].refused


REFUSED = {
    "stored under a condition": SAXPY.replace("y[i] = a * x[i] + y[i]", "if (x[i] > 0) y[i] = x[i]"),
    "left early": SAXPY.replace(
        "    y[i] =", "    for (int q = 0; q < 3; ++q) if (x[i] > q) break;\n    y[i] ="
    ),
    "an element apart": SAXPY.replace("x[i]", "x[i + 1]").replace("y[i]", "y[2 * i]"),
    "threads told apart": SAXPY.replace("y[i] =", "if (threadIdx.x > 3) y[i] ="),
    "a barrier": SAXPY.replace("  if (i < n)", "  __syncthreads();\n  if (i < n)"),
    "stored where another element is": SAXPY.replace(
        "y[i] = a * x[i] + y[i]", "if (i & 1) { float t = y[i]; y[i] = y[i ^ 1]; y[i ^ 1] = t; }"
    ).replace("(const float* x, float* y,", "(const double* x, float* y,"),
    "no launch": SAXPY[: SAXPY.index("void run")],
    "loops over other data": SAXPY.replace(
        "    y[i] =", "    for (int q = 0; q < n; ++q) y[i] += x[q];\n    y[i] ="
    ),
    "columns": SAXPY.replace("[i]", "[i * n]"),
    "a limit that moves with the element": SAXPY.replace("  if (i < n)", "  int o = i ^ n;\n  if (i < o)"),
    "rows of a number that is divided": SAXPY.replace(
        "  if (i < n)", "  if (i >= n * 8) return;\n  int r = i / n, c = i % n;\n  if (i < n)"
    ).replace("x[i]", "x[r * n + c]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_widened_is_left_alone(name: str) -> None:
    assert rewritten("widen-access", REFUSED[name])[0].refused


HALVES = {
    "a gate and what it lets through": (
        """
__global__ void swiglu(const __half* x, __half* y, int rows, int dim) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx >= rows * dim) return;
  int r = idx / dim;
  int c = idx % dim;
  float g = __half2float(x[r * 2 * dim + c]);
  float u = __half2float(x[r * 2 * dim + dim + c]);
  y[idx] = __float2half(g / (1.0f + expf(-g)) * u);
}
void run(const __half* x, __half* y, int rows, int dim) {
  swiglu<<<(rows * dim + 255) / 256, 256>>>(x, y, rows, dim);
}
""",
        "  int rows = atoi(argv[1]), dim = atoi(argv[2]);\n"
        "  Device<__half> x(2 * rows * dim), y(rows * dim, 2); run(x, y, rows, dim); y.show();",
    ),
    "halves of a row turned in place": (
        """
__global__ void rope(float* q, const float* angles, int tokens, int heads, int dim) {
  int half_dim = dim / 2;
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx >= tokens * heads * half_dim) return;
  int i = idx % half_dim;
  int h = (idx / half_dim) % heads;
  int t = idx / (half_dim * heads);
  float* row = q + (t * heads + h) * dim;
  float a = row[i], b = row[i + half_dim];
  float c = cosf(angles[t * half_dim + i]), s = sinf(angles[t * half_dim + i]);
  row[i] = a * c - b * s;
  row[i + half_dim] = b * c + a * s;
}
""",
        "  int tokens = atoi(argv[1]), dim = 2 * atoi(argv[2]), heads = 3;\n"
        "  Device<float> q(tokens * heads * dim), a(tokens * dim / 2, 2);\n"
        "  rope<<<(tokens * heads * dim / 2 + 255) / 256, 256>>>(q, a, tokens, heads, dim); q.show();",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", HALVES)
def test_two_places_of_one_array_are_accessed_in_vectors(name: str) -> None:
    after = holds("axes-in-vectors", program(*HALVES[name]), (5, 64), (3, 37), (9, 2), relative=1e-6)
    assert "Part2" in after


LOOKED_UP = """
__global__ void look_up(const {type}* table, const int* ids, {type}* out, int rows, int dim) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * dim) {{
    int row = i / dim, d = i % dim;
    out[i] = table[ids[row] * dim + d];
  }}
}}
"""
PLANES = """
__global__ void shift(const float* in, const float* by, float* out, int planes, int height, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= planes * height * width) return;
  int x = i % width;
  int y = i / width % height;
  int plane = i / (width * height);
  out[i] = in[i] + by[plane * height + y] * x;
}
"""
ROW_BY_ROW = {
    element: (
        LOOKED_UP.format(type=element),
        "  int rows = atoi(argv[1]), dim = atoi(argv[2]); int ids[500]; int* of;\n"
        "  cudaMalloc((void**)&of, sizeof(ids)); for (int i = 0; i < 500; ++i) ids[i] = i * 7 % 11;\n"
        "  cudaMemcpy(of, ids, sizeof(ids), cudaMemcpyHostToDevice);\n"
        f"  Device<{element}> table(11 * dim), out(rows * dim, 2);\n"
        "  look_up<<<(rows * dim + 63) / 64, 64>>>(table, of, out, rows, dim); out.show();",
    )
    for element in ("float", "unsigned char", "__half")
} | {
    "planes": (
        PLANES,
        "  int height = atoi(argv[1]), width = atoi(argv[2]); int n = 3 * height * width;\n"
        "  Device<float> in(n), by(3 * height, 2), out(n, 3);\n"
        "  shift<<<(n + 127) / 128, 128>>>(in, by, out, 3, height, width); out.show();",
    )
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_the_vectors_of_all_rows_are_numbered_one_after_another(name: str) -> None:
    text = program(*ROW_BY_ROW[name])
    after = holds("rows-in-vectors", text, (300, 32), (37, 5), (1, 1), (9, 48))
    assert "% threads" in after
    assert ("65535" in rewritten("rows-in-vectors", text)[0].caveat) == (name == "planes")
    assert rewritten("rows-in-vectors", after)[0].refused


def test_what_has_no_rows_is_not_numbered_row_by_row() -> None:
    code = LOOKED_UP.format(type="float")
    for old, new in (("i % dim", "threadIdx.x % dim"), ("row = i / dim, d = i % dim", "row = 0, d = i")):
        text = program(code.replace(old, new), ROW_BY_ROW["float"][1])
        assert rewritten("rows-in-vectors", text)[0].refused


LAGGED = """
__global__ void lag(float* x, int rows, int cols, int by) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {
    float* row = x + r * cols;
    for (int i = 0; i < cols - by; ++i) row[i + by] = row[i] * 0.5f + row[i + by];
  }
}
"""


@pytest.mark.compiler
def test_places_that_overlap_are_done_one_by_one() -> None:
    main = (
        "  int rows = atoi(argv[1]), cols = atoi(argv[2]), by = atoi(argv[3]); Device<float> x(rows * cols);\n"
        "  lag<<<(rows + 31) / 32, 32>>>(x, rows, cols, by); x.show();"
    )
    after = holds("row-in-vectors", program(LAGGED, main), (4, 64, 1), (4, 64, 2), (4, 64, 4), (4, 64, 16))
    assert "||" in after


ROW_ABOVE = """
__global__ void below(const float* in, float* out, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  int k = y * w + x;
  float s = in[k];
  if (y CONDITION) s += in[k - w];
  out[k] = s;
}
"""


@pytest.mark.compiler
@pytest.mark.parametrize("condition", ["> 0", ">= 1", "!= 0"])
def test_no_vector_is_loaded_where_there_is_no_row(condition: str) -> None:
    main = """
  int w = atoi(argv[1]), h = atoi(argv[2]); Device<float> x(w * h), y(w * h);
  below<<<dim3((w + 31) / 32, (h + 3) / 4), dim3(32, 4)>>>(x, y, w, h); y.show();
"""
    after = holds(
        "widen-access", program(ROW_ABOVE.replace("CONDITION", condition), main), (64, 5), (7, 3), (1, 1)
    )
    assert f" &&\n      y {condition}) {{" in after


@pytest.mark.compiler
def test_no_vector_is_loaded_before_the_first_element() -> None:
    code = """
__global__ void lagged(const float* in, float* out, int n, int lag) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < lag || i >= n) return;
  out[i] += in[i] - in[i - lag];
}
"""
    main = """
  int n = atoi(argv[1]), lag = atoi(argv[2]); Device<float> x(n), y(n);
  lagged<<<(n + 63) / 64, 64>>>(x, y, n, lag); y.show();
"""
    holds("widen-access", program(code, main), (1000, 64), (1001, 8), (1000, 5), (3, 1))


def test_many_elements_of_an_index_of_which_few_are_used_are_left_one_by_one() -> None:
    code, main = PROGRAMS["four pixels a thread by hand"]
    few = code.replace("5 * rgb[3 * i + 1] + rgb[3 * i + 2]", "5").replace(
        "5 * rgb[3 * i + 4] + rgb[3 * i + 5]", "5"
    )
    few = few.replace("rgb[3 * i + 7] + rgb[3 * i + 8]", "1").replace(
        "5 * rgb[3 * i + 10] + rgb[3 * i + 11]", "5"
    )
    result, after = rewritten("widen-access", program(few, main))
    assert result.edits and "rgbPart" not in after and "grayPart" in after
    _, after = rewritten("widen-access", program(code, main))
    assert "unsigned char rgbPart[12 * kVector]" in after and "kVector = 4;" in after
