# SPDX-License-Identifier: Apache-2.0
"""The same kernels as people spell them: types by `auto`, structures as parameters, pointers to a batch's part."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

AUTOS = """
__global__ void cosines(const double* __restrict__ a, const double* __restrict__ b, double* out, const int n, int dim) {
    auto i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        auto dot = 0.0, na = 0.0, nb = 0.0;
        auto pa = a + i * dim;
        auto pb = b + i * dim;
        for (auto d = 0; d < dim; ++d) {
            const auto x = pa[d];
            auto y = pb[d];
            dot += x * y; na += x * x; nb += y * y;
        }
        out[i] = dot / (sqrt(na) * sqrt(nb));
    }
}
"""
AUTOS_MAIN = """
  int n = atoi(argv[1]), dim = atoi(argv[2]); Device<double> a(n * dim), b(n * dim, 2), out(n);
  cosines<<<(n + 63) / 64, 64>>>(a, b, out, n, dim); out.show();
"""
GRID = """
struct Grid { int nx, ny; };
__device__ __forceinline__ int at(const Grid& g, int x, int y) { return y * g.nx + x; }
__global__ void jacobi(Grid g, const float* __restrict__ u, float* __restrict__ v) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x > 0 && x < g.nx - 1 && y > 0 && y < g.ny - 1)
        v[at(g, x, y)] = 0.25f * (u[at(g, x - 1, y)] + u[at(g, x + 1, y)] + u[at(g, x, y - 1)] + u[at(g, x, y + 1)]);
}
"""
GRID_MAIN = """
  Grid g{atoi(argv[1]), atoi(argv[2])}; Device<float> u(g.nx * g.ny), v(g.nx * g.ny, 2);
  dim3 block(32, 4), grid((g.nx + 31) / 32, (g.ny + 3) / 4);
  jacobi<<<grid, block>>>(g, u, v); v.show();
"""
FIELD = """
struct Field { float* ez; const float* hx; float* hy; int nx, ny; };
__global__ void update(Field f, float ce) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i == 0 || j == 0 || i >= f.nx || j >= f.ny) return;
    int k = j * f.nx + i;
    f.ez[k] += ce * ((f.hy[k] - f.hy[k - 1]) - (f.hx[k] - f.hx[k - f.nx]));
}
"""
FIELD_MAIN = """
  int nx = atoi(argv[1]), ny = atoi(argv[2]); Device<float> e(nx * ny), hx(nx * ny, 2), hy(nx * ny, 3);
  Field f{e, hx, hy, nx, ny};
  update<<<dim3((nx + 31) / 32, (ny + 3) / 4), dim3(32, 4)>>>(f, 0.5f); e.show();
"""
BATCH = """
template <typename T>
__global__ void products(const T* __restrict__ A, const T* __restrict__ B, T* __restrict__ C, int M, int N, int K) {
  const int b = blockIdx.z;
  const int m = blockIdx.y * blockDim.y + threadIdx.y;
  const int n = blockIdx.x * blockDim.x + threadIdx.x;
  if (m >= M) return;
  if (n >= N) return;
  const T* a = A + (size_t)b * M * K;
  const T* w = B + (size_t)b * K * N;
  T* c = C + (size_t)b * M * N;
  T acc = 0;
  for (int k = 0; k < K; ++k) acc += a[m * K + k] * w[k * N + n];
  c[m * N + n] = acc;
}
"""
BATCH_MAIN = """
  int n = atoi(argv[1]), k = atoi(argv[2]), m = 7; Device<float> a(2 * m * k), b(2 * k * n, 2), c(2 * m * n);
  products<float><<<dim3((n + 15) / 16, (m + 15) / 16, 2), dim3(16, 16)>>>(a, b, c, m, n, k); c.show();
"""
PROGRAMS = {
    "autos": (AUTOS, AUTOS_MAIN, ("several-outputs", "register-tile", "warp-per-row")),
    "a structure of extents": (GRID, GRID_MAIN, ("stencil-in-vectors", "march-inside", "march-outputs")),
    "a structure of arrays": (FIELD, FIELD_MAIN, ("stencil-in-vectors", "march-inside", "widen-access")),
    "a batch's parts": (BATCH, BATCH_MAIN, ("columns-in-vectors", "several-outputs", "register-tile")),
}
CASES = [(name, slug) for name, (_, _, slugs) in PROGRAMS.items() for slug in slugs]


@pytest.mark.compiler
@pytest.mark.parametrize(("name", "slug"), CASES)
def test_results_stay(name: str, slug: str) -> None:
    kernel, main, _ = PROGRAMS[name]
    holds(slug, program(kernel, main), (1, 1), (37, 21), (64, 32), (67, 40), relative=1e-5, absolute=1e-6)


def test_autos_that_stay_are_written_as_they_were() -> None:
    after = rewritten("warp-per-row", AUTOS)[1]
    assert "auto dot = 0.0, na = 0.0, nb = 0.0;" in after and "const auto x = pa[d];" in after
    assert "double dot[kOutputs]" in rewritten("several-outputs", program(AUTOS, AUTOS_MAIN))[1]


def test_members_have_names_where_rewrites_need_them_alone() -> None:
    after = rewritten("stencil-in-vectors", program(FIELD, FIELD_MAIN))[1]
    for line in ("float* ez = f.ez;", "const float* hx = f.hx;", "const int nx = f.nx;"):
        assert after.count(line) == 1
    assert "const int nx = f.nx;" not in rewritten("march-outputs", program(FIELD, FIELD_MAIN))[1]


@pytest.mark.parametrize("line", ["f.nx = 3;", "Field* p = &f;", "f = other(f);", "int f = 2;"])
def test_structures_that_change_keep_their_members(line: str) -> None:
    changed = FIELD.replace("    int k =", f"    {line}\n    int k =")
    assert "nx = f.nx" not in rewritten("stencil-in-vectors", program(changed, FIELD_MAIN))[1]


IMAGE = """
struct Image {
    float* data; int w, h;
    __device__ float get(int x, int y) const { return data[y * w + x]; }
    __device__ void set(int x, int y, float v) { data[y * w + x] = v; }
    __device__ const float& operator()(int x, int y) const { return data[y * w + x]; }
};
__global__ void gradient(const Image in, Image out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= in.w - 1 || y >= in.h - 1) return;
    float gx = in.get(x + 1, y) - in(x - 1, y);
    float gy = in(x, y + 1) - in.get(x, y - 1);
    out.set(x, y, gx * gx + gy * gy);
}
"""
IMAGE_MAIN = """
  int w = atoi(argv[1]), h = atoi(argv[2]); Device<float> a(w * h), b(w * h, 2);
  Image in{a, w, h}, out{b, w, h};
  gradient<<<dim3((w + 31) / 32, (h + 3) / 4), dim3(32, 4)>>>(in, out); b.show();
"""
COLUMNS = """
struct Matrix { const float* p; size_t rows, cols;
    __device__ float operator()(size_t r, size_t c) const { return p[r * cols + c]; } };
__global__ void sums(Matrix m, float* out) {
    size_t c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= m.cols) return;
    float s = 0;
    for (size_t r = 0; r < m.rows; ++r) s += m(r, c);
    out[c] = s;
}
"""
COLUMNS_MAIN = """
  size_t cols = atoi(argv[1]), rows = atoi(argv[2]); Device<float> a(rows * cols), b(cols, 2);
  sums<<<(cols + 63) / 64, 64>>>(Matrix{a, rows, cols}, b); b.show();
"""
CONSTANTS = """
struct Params { int nx, ny; float dt; };
__constant__ Params params;
__global__ void step(const float* u, float* v) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= params.nx - 1 || y >= params.ny - 1) return;
    int k = y * params.nx + x;
    v[k] = u[k] + params.dt * (u[k - 1] + u[k + 1] + u[k - params.nx] + u[k + params.nx] - 4 * u[k]);
}
"""
CONSTANTS_MAIN = """
  int nx = atoi(argv[1]), ny = atoi(argv[2]); Device<float> u(nx * ny), v(nx * ny, 2);
  Params h{nx, ny, 0.125f}; cudaMemcpyToSymbol(params, &h, sizeof(h));
  step<<<dim3((nx + 31) / 32, (ny + 3) / 4), dim3(32, 4)>>>(u, v); v.show();
"""
WIDTH = """
__constant__ int width;
__global__ void lengths(const float* a, float* s, int n) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < n) {
        float t = 0;
        for (int c = 0; c < width; ++c) t += fabsf(a[r * width + c]);
        s[r] = t;
    }
}
"""
WIDTH_MAIN = """
  int w = atoi(argv[1]), n = atoi(argv[2]); Device<float> a(n * w), s(n);
  cudaMemcpyToSymbol(width, &w, sizeof(int)); lengths<<<(n + 63) / 64, 64>>>(a, s, n); s.show();
"""
WRAPPED = """
namespace ops {
namespace detail {
template <typename scalar_t, int kBlock>
__global__ void squares(const scalar_t* __restrict__ in, scalar_t* __restrict__ out, int64_t rows, int64_t cols) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (row >= rows) { return; }
  scalar_t acc = static_cast<scalar_t>(0);
  for (int64_t c = 0; c < cols; ++c) {
    const scalar_t v = in[row * cols + c];
    acc += v * v;
  }
  out[row] = acc;
}
}
template <typename T> void launch(const T* in, T* out, int64_t rows, int64_t cols) {
  constexpr int kBlock = 64;
  const int64_t blocks = (rows + kBlock - 1) / kBlock;
  detail::squares<T, kBlock><<<blocks, kBlock>>>(in, out, rows, cols);
}
}
"""
WRAPPED_MAIN = """
  int cols = atoi(argv[1]), rows = atoi(argv[2]); Device<float> a(rows * cols), b(rows);
  ops::launch<float>(a, b, rows, cols); b.show();
"""
FURTHER = {
    "an image's functions": (IMAGE, IMAGE_MAIN, ("march-inside", "march-outputs")),
    "an operator of a matrix": (COLUMNS, COLUMNS_MAIN, ("split-columns",)),
    "a structure in constant memory": (CONSTANTS, CONSTANTS_MAIN, ("stencil-in-vectors", "march-inside")),
    "a width in constant memory": (
        WIDTH,
        WIDTH_MAIN,
        ("warp-row-vectors", "row-in-vectors", "block-row-vectors"),
    ),
    "a launch in a namespace": (WRAPPED, WRAPPED_MAIN, ("warp-per-row", "warp-row-vectors")),
}


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("name", "slug"), [(name, slug) for name, (_, _, slugs) in FURTHER.items() for slug in slugs]
)
def test_results_of_further_spellings_stay(name: str, slug: str) -> None:
    kernel, main, _ = FURTHER[name]
    holds(slug, program(kernel, main), (1, 1), (37, 21), (64, 32), (67, 40), relative=1e-4, absolute=1e-5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "return data[y * w + x]; }\n    __device__ void",
            "++calls; return data[y * w + x]; }\n    __device__ void",
        ),
        (
            "int x, int y) const { return data[y * w + x]; }\n    __device__ void",
            "float x, float y) const { return data[(int)y * w + (int)x]; }\n    __device__ void",
        ),
    ],
)
def test_functions_that_do_more_than_to_find_an_element_stay(old: str, new: str) -> None:
    changed = IMAGE.replace(old, new)
    assert changed != IMAGE
    after = rewritten("march-outputs", program(changed, IMAGE_MAIN))[1]
    assert "in.get(x + 1, y)" in after


def test_rows_of_an_array_of_arrays_have_no_vectors_that_a_loop_counts() -> None:
    code = """
__global__ void mm(const float A[96][96], const float B[96][96], float C[96][96]) {
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 96 && j < 96) {
        float s = 0;
        for (int k = 0; k < 96; k++) s += A[i][k] * B[k][j];
        C[i][j] = s;
    }
}
void run(const float (*a)[96], const float (*b)[96], float (*c)[96]) {
    mm<<<dim3(6, 6), dim3(16, 16)>>>(a, b, c);
}
"""
    assert "(B[k])" not in rewritten("columns-in-vectors", code)[1]
