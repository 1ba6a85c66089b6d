# SPDX-License-Identifier: Apache-2.0
"""The same kernels as people spell them: types by `auto`, structures as parameters, pointers to a batch's part."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

AUTOS = """
__global__ void cosines(const double* __restrict__ a, const double* __restrict__ b, double* out, const int n, const int dim) {
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
