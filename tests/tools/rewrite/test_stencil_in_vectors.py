# SPDX-License-Identifier: Apache-2.0
"""Neighbouring outputs of a stencil: rows are loaded once, in vectors, however a kernel keeps to its edges."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten
from tests.tools.rewrite.test_normal_ends import plain

PLANE = (
    "  int w = atoi(argv[1]), h = atoi(argv[2]);\n  dim3 block(16, 4), grid((w + 15) / 16, (h + 3) / 4);\n"
)
KERNELS = {
    "pixels clamped by a function": (
        """
__device__ int clampi(int v, int lo, int hi) { return v < lo ? lo : v > hi ? hi : v; }
__global__ void edges(const unsigned char* img, unsigned char* out, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  int l = clampi(x - 1, 0, w - 1), r = clampi(x + 1, 0, w - 1);
  int gx = img[y * w + r] - img[y * w + l];
  int gy = img[min(y + 1, h - 1) * w + x] - img[max(y - 1, 0) * w + x];
  out[y * w + x] = min(abs(gx) + abs(gy), 255);
}
""",
        PLANE
        + "  Device<unsigned char> a(w * h), b(w * h, 3); edges<<<grid, block>>>(a, b, w, h); b.show();",
        ((64, 12), (37, 9)),
    ),
    "a mirrored edge": (
        """
__device__ inline int mirror(int i, int n)
{
    if (i < 0) return -i;
    if (i >= n) return 2 * n - 2 - i;
    return i;
}
__global__ void smooth(const short* src, short* dst, int w, int h)
{
    const int x = threadIdx.x + blockIdx.x * blockDim.x;
    const int y = threadIdx.y + blockIdx.y * blockDim.y;
    if (x < w && y < h) {
        const short* row = src + y * w;
        dst[y * w + x] = (row[mirror(x - 2, w)] + 2 * row[x] + row[mirror(x + 2, w)]) / 4;
    }
}
""",
        PLANE + "  Device<short> a(w * h), b(w * h, 3); smooth<<<grid, block>>>(a, b, w, h); b.show();",
        ((64, 8), (19, 5)),
    ),
    "a periodic edge by choices": (
        """
__global__ void diffuse(const float* u, float* v, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  int left = x == 0 ? w - 1 : x - 1, right = x == w - 1 ? 0 : x + 1;
  int up = y == 0 ? h - 1 : y - 1, down = y == h - 1 ? 0 : y + 1;
  v[y * w + x] = u[y * w + x] + 0.25f * (u[y * w + left] + u[y * w + right] + u[up * w + x] + u[down * w + x]);
}
""",
        PLANE + "  Device<float> a(w * h), b(w * h, 3); diffuse<<<grid, block>>>(a, b, w, h); b.show();",
        ((64, 8), (33, 5), (4, 4)),
    ),
    "a volume with an index macro": (
        """
#define AT(i, j, k) (((k) * ny + (j)) * nx + (i))
__global__ void jacobi(const double* u, double* v, const double* f, int nx, int ny, int nz) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int j = blockIdx.y * blockDim.y + threadIdx.y;
  int k = blockIdx.z;
  if (i < 1 || j < 1 || k < 1 || i >= nx - 1 || j >= ny - 1 || k >= nz - 1) return;
  v[AT(i, j, k)] = (u[AT(i - 1, j, k)] + u[AT(i + 1, j, k)] + u[AT(i, j - 1, k)] + u[AT(i, j + 1, k)] +
                    u[AT(i, j, k - 1)] + u[AT(i, j, k + 1)] - f[AT(i, j, k)]) / 6.0;
}
""",
        "  int w = atoi(argv[1]), h = atoi(argv[2]), n = w * h * 4; dim3 grid((w + 15) / 16, (h + 3) / 4, 4);\n"
        "  Device<double> a(n), b(n, 3), c(n, 5); jacobi<<<grid, dim3(16, 4)>>>(a, b, c, w, h, 4); b.show();",
        ((32, 6), (21, 5)),
    ),
    "a line of any type": (
        """
template <typename T>
__global__ void heat(const T* __restrict__ now, T* __restrict__ next, int n, T rate) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < n - 1) next[i] = now[i] + rate * (now[i - 1] - 2 * now[i] + now[i + 1]);
}
""",
        "  int n = atoi(argv[1]) * atoi(argv[2]); Device<float> a(n), b(n, 3);\n"
        "  heat<float><<<(n + 63) / 64, 64>>>(a, b, n, 0.1f); b.show();",
        ((50, 20), (7, 3)),
    ),
    "a window that is sorted": (
        """
__global__ void median(const float* in, float* out, int w, int h) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r >= h || c >= w) return;
    float v[9];
    int n = 0;
    for (int i = -1; i <= 1; i++) {
        for (int j = -1; j <= 1; j++) {
            int y = min(max(r + i, 0), h - 1);
            int x = min(max(c + j, 0), w - 1);
            v[n++] = in[y * w + x];
        }
    }
    for (int a = 0; a < 9; a++)
        for (int b = 0; b < 8 - a; b++)
            if (v[b] > v[b + 1]) { float t = v[b]; v[b] = v[b + 1]; v[b + 1] = t; }
    out[r * w + c] = v[4];
}
""",
        PLANE + "  Device<float> a(w * h), b(w * h, 3); median<<<grid, block>>>(a, b, w, h); b.show();",
        ((64, 12), (37, 9)),
    ),
    "masks and two sums": (
        """
__global__ void sobel(const unsigned char* in, unsigned char* out, int w, int h) {
  const int kx[3][3] = {{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}};
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x == 0 || y == 0 || x >= w - 1 || y >= h - 1) return;
  int sx = 0, sy = 0;
  for (int j = -1; j <= 1; ++j)
    for (int i = -1; i <= 1; ++i) {
      int p = in[(y + j) * w + x + i];
      sx += p * kx[j + 1][i + 1];
      sy += p * kx[i + 1][j + 1];
    }
  int m = abs(sx) + abs(sy);
  out[y * w + x] = m > 255 ? 255 : m;
}
""",
        PLANE
        + "  Device<unsigned char> a(w * h), b(w * h, 3); sobel<<<grid, block>>>(a, b, w, h); b.show();",
        ((64, 12), (37, 9)),
    ),
    "a periodic edge by remainders": (
        """
__global__ void life(const unsigned char* now, unsigned char* next, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int alive = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (dx != 0 || dy != 0) alive += now[((y + dy + h) % h) * w + (x + dx + w) % w] & 1;
    next[y * w + x] = 3 - (x + 1) % w + alive;
}
""",
        PLANE + "  Device<unsigned char> a(w * h), b(w * h, 3); life<<<grid, block>>>(a, b, w, h); b.show();",
        ((64, 12), (37, 9)),
    ),
    "a number that is divided": (
        """
__global__ void heat(const float* t0, float* t1, int w, int h, float k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= w * h) return;
    int x = i % w, y = i / w;
    if (x > 0 && x < w - 1 && y > 0 && y < h - 1)
        t1[i] = t0[i] + k * (t0[i - 1] + t0[i + 1] + t0[i - w] + t0[i + w] - 4.0f * t0[i]);
}
""",
        "  int w = atoi(argv[1]), h = atoi(argv[2]); Device<float> a(w * h), b(w * h, 3);\n"
        "  heat<<<(w * h + 63) / 64, 64>>>(a, b, w, h, 0.1f); b.show();",
        ((64, 12), (37, 9)),
    ),
    "upwind, by data": (
        """
__global__ void upwind(const float* q, const float* u, float* out, int w, int h, float dt) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    int j = threadIdx.y + blockIdx.y * blockDim.y;
    if (i < 1 || j < 1 || i > w - 2 || j > h - 2) return;
    float vel = u[j * w + i];
    float dq = vel > 3 ? q[j * w + i] - q[j * w + i - 1] : q[j * w + i + 1] - q[j * w + i];
    out[j * w + i] = q[j * w + i] - dt * vel * dq;
}
""",
        PLANE + "  Device<float> a(w * h), u(w * h, 5), b(w * h, 3);\n"
        "  upwind<<<grid, block>>>(a, u, b, w, h, 0.1f); b.show();",
        ((64, 12), (37, 9)),
    ),
    "colours side by side": (
        """
__global__ void gray(const unsigned char* rgb, unsigned char* out, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  const unsigned char* p = rgb + 3 * (y * w + x);
  out[y * w + x] = (77 * p[0] + 150 * p[1] + 29 * p[2]) >> 8;
}
""",
        PLANE
        + "  Device<unsigned char> a(3 * w * h), b(w * h, 3); gray<<<grid, block>>>(a, b, w, h); b.show();",
        ((64, 12), (37, 9)),
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", KERNELS)
def test_results_stay(name: str) -> None:
    kernel, main, runs = KERNELS[name]
    after = holds("stencil-in-vectors", program(kernel, main), *runs, relative=1e-6)
    assert "load_row<" in after and "store_row(" in after


EDGES = KERNELS["pixels clamped by a function"]
ALONE = {
    "in place": ("edges<<<grid, block>>>(a, b, w, h)", "edges<<<grid, block>>>(a, a, w, h)"),
    "shared memory": ("int gx =", "__shared__ int s[1]; s[0] = 0; int gx ="),
    "nothing beside": ("img[y * w + r] - img[y * w + l]", "img[y * w + x] + l + r"),
}


@pytest.mark.parametrize("name", ALONE)
def test_left_alone(name: str) -> None:
    text = program(EDGES[0], EDGES[1])
    changed = text.replace(*ALONE[name])
    assert changed != text and rewritten("stencil-in-vectors", changed)[0].refused


@pytest.mark.compiler
def test_outputs_that_data_leave_out_are_stored_one_by_one() -> None:
    kernel = EDGES[0].replace("int gx =", "if (img[y * w + x] % 2 == 0) return;\n  int gx =")
    after = holds("stencil-in-vectors", program(kernel, EDGES[1]), *EDGES[2])
    assert "load_row<" in after and "store_row(" not in after


def test_functions_of_integers_are_written_out() -> None:
    assert "int l = x - 1 < 0 ? 0 : x - 1 > (w - 1) ? (w - 1) : x - 1" in plain(EDGES[0]).replace(
        "(x - 1)", "x - 1"
    )
    assert "mirror(x - 2, w)" not in plain(KERNELS["a mirrored edge"][0])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int clampi(int v", "int clampi(unsigned v"),
        ("return v < lo", "v += 0; return v < lo"),
        ("clampi(x - 1, 0", "clampi(x++, 0"),
        ("? hi : v; }", "? hi : v + gridDim.x; }"),
    ],
)
def test_other_functions_stay(old: str, new: str) -> None:
    assert "clampi(" in plain(EDGES[0].replace(old, new)).split("edges")[1]
