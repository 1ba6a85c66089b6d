# SPDX-License-Identifier: Apache-2.0
"""Numbers that are divided into indices, as axes of the launch; and what follows that in one step."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SIZES = "  int B = atoi(argv[1]), H = atoi(argv[2]), W = atoi(argv[3]);\n"
PERMUTE = """
__global__ void permute(const float* in, float* out, int B, int N, int NH, int d) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * NH * N * d) {
        int b = idx / (NH * N * d);
        int rest = idx % (NH * N * d);
        int nh = rest / (N * d);
        rest = rest % (N * d);
        int n = rest / d;
        int dd = rest % d;
        out[idx] = in[(b * N * NH * d) + (n * NH * d) + (nh * d) + dd];
    }
}
"""
PRODUCTS = """
__global__ void bmm(const float* a, const float* b, float* c, int batch, int m, int n, int k)
{
    size_t idx = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= (size_t)batch * m * n) return;
    int bi = idx / (m * n);
    int r = (idx / n) % m;
    int col = idx % n;
    const float* A = a + (size_t)bi * m * k;
    const float* B = b + (size_t)bi * k * n;
    float acc = 0.f;
    for (int p = 0; p < k; p++)
        acc += A[r * k + p] * B[p * n + col];
    c[idx] = acc;
}
"""
POOL = """
__global__ void pool(const float* in, float* out, int planes, int height, int width, int size, int step) {
  int oh = (height - size) / step + 1, ow = (width - size) / step + 1;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= planes * oh * ow) return;
  int x = i % ow, y = i / ow % oh, c = i / (ow * oh);
  float best = -INFINITY;
  for (int dy = 0; dy < size; ++dy)
    for (int dx = 0; dx < size; ++dx) best = fmaxf(best, in[(c * height + y * step + dy) * width + x * step + dx]);
  out[i] = best;
}
"""
PROGRAMS = {
    "extents that the kernel works out": (
        POOL,
        SIZES + "  int oh = (H - 3) / 2 + 1, ow = (W - 3) / 2 + 1, total = B * oh * ow;\n"
        "  Device<float> a(B * H * W), b(total, 2);\n"
        "  pool<<<(total + 255) / 256, 256>>>(a, b, B, H, W, 3, 2); b.show();",
    ),
    "the largest digit first, a rest that is divided on": (
        PERMUTE,
        SIZES + "  Device<float> a(B * H * 3 * W), b(B * H * 3 * W, 2); int n = B * H * 3 * W, bs = 128;\n"
        "  permute<<<(n + bs - 1) / bs, bs>>>(a, b, B, H, 3, W); b.show();",
    ),
    "wider than its digits": (
        PRODUCTS,
        SIZES + "  Device<float> a(B * H * 7), b(B * 7 * W, 2), c(B * H * W, 3); size_t total = B * H * W;\n"
        "  bmm<<<(total + 255) / 256, 256>>>(a, b, c, B, H, W, 7); c.show();",
    ),
    "a running quotient": (
        """
__global__ void shift(const float* in, float* out, int n, int C, int H, int W) {
  const int index = threadIdx.x + blockIdx.x * blockDim.x;
  if (index >= n) return;
  int t = index;
  int w = t % W; t /= W;
  int h = t % H; t /= H;
  int c = t % C;
  out[index] = in[index] + w + 10 * h + 100 * c;
}
""",
        SIZES + "  Device<float> a(B * 2 * H * W), b(B * 2 * H * W, 2); int n = B * 2 * H * W;\n"
        "  shift<<<(n + 63) / 64, 64>>>(a, b, n, 2, H, W); b.show();",
    ),
    "rows alone": (
        """
__global__ void add_bias(float* x, const float* bias, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int total = rows * cols;
  if (i < total) {
    int row = i / cols, col = i % cols;
    x[i] += bias[col] * (row + 1);
  }
}
""",
        SIZES + "  Device<float> x(B * H * W), b(W, 2); int threads = 256;\n"
        "  add_bias<<<(B * H * W + threads - 1) / threads, threads>>>(x, b, B * H, W); x.show();",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_indices_come_from_the_launch(name: str) -> None:
    code, main = PROGRAMS[name]
    after = holds("index-into-axes", program(code, main), (2, 5, 33), (1, 9, 17))
    assert "threadIdx.y" in after and "dim3(32, 8)" in after


def test_a_quotient_of_the_rest_is_one_of_its_axis() -> None:
    after = rewritten(
        "index-into-axes", program(*PROGRAMS["the largest digit first, a rest that is divided on"])
    )[1]
    assert "int b = z / NH;" in after and "int nh = z % NH;" in after and "dim3(B * 3," in after


def test_products_are_tiled_behind_it() -> None:
    after = holds(
        "outputs-in-patches", program(*PROGRAMS["wider than its digits"]), (2, 65, 70), relative=1e-6
    )
    assert "tileA" in after and "int bi = blockIdx.x;" in after and "__restrict__" in after


JACOBI = """
__global__ void jacobi(const float* a, float* b, int nx, int ny) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  int i = t / ny, j = t % ny;
  if (i > 0 && i < nx - 1 && j > 0 && j < ny - 1)
    b[i * ny + j] = 0.25f * (a[(i - 1) * ny + j] + a[(i + 1) * ny + j] + a[i * ny + j - 1] + a[i * ny + j + 1]);
}
"""
HEAT = """
__global__ void heat(const float* u, float* v, size_t planes, int rows, int cols) {
  size_t id = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  int x = id % cols;
  int y = (id / cols) % rows;
  size_t z = id / ((size_t)cols * rows);
  if (x == 0 || z == 0 || y == 0 || x >= cols - 1 || y >= rows - 1 || z > planes - 2) return;
  size_t plane = (size_t)rows * cols;
  v[id] = u[id - 1] + u[id + 1] + u[id - cols] + u[id + cols] + u[id - plane] + u[id + plane] - 6.0f * u[id];
}
"""
ONLY_DIGITS = {
    "rows and columns": (
        JACOBI,
        SIZES
        + "  Device<float> a(H * W), b(H * W, 2); jacobi<<<(H * W + 63) / 64, 64>>>(a, b, H, W); b.show();",
    ),
    "planes, left early": (
        HEAT,
        SIZES + "  Device<float> a(B * H * W), b(B * H * W, 2);\n"
        "  heat<<<(B * H * W + 63) / 64, 64>>>(a, b, B, H, W); b.show();",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("slug", ["index-into-axes", "outputs-in-patches"])
@pytest.mark.parametrize("name", ONLY_DIGITS)
def test_a_condition_on_the_slowest_index_limits_the_number(name: str, slug: str) -> None:
    holds(
        slug, program(*ONLY_DIGITS[name]), (3, 9, 40), (5, 3, 33), (4, 17, 64), relative=1e-6, absolute=1e-5
    )


REFUSED = {
    "a store before the condition": (
        JACOBI.replace("  if (i > 0", "  b[t] = 0;\n  if (i > 0"),
        "nothing limits",
    ),
    "work behind the condition": (
        JACOBI.replace("j - 1] + a[i * ny + j + 1]);\n", "j - 1]);\n  b[t] = 0;\n"),
        "",
    ),
    "the slowest index is not limited": (JACOBI.replace("i < nx - 1", "i != nx - 1"), "nothing limits"),
    "its limit rests on the column": (JACOBI.replace("i < nx - 1", "i < j"), ""),
    "nothing limits it": (PERMUTE.replace("if (idx < B * NH * N * d) ", ""), "nothing limits"),
    "three channels side by side": (
        PERMUTE.replace("rest % d", "rest % 3").replace("rest / d", "rest / 3").replace("N * d", "N * 3"),
        "few values",
    ),
    "a number that is changed": (PERMUTE.replace("int b =", "idx += 1; int b ="), "is changed"),
    "a place in the block": (
        PERMUTE.replace("int b =", "int lane = threadIdx.x; int b ="),
        "place in its block",
    ),
    "no digits": (PERMUTE.split("int b =")[0] + "out[idx] = in[idx]; } }\n", "not divided"),
    "extents of its own data": (PERMUTE.replace("int b =", "int NH = in[0]; int b ="), ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_left_alone(name: str) -> None:
    code, why = REFUSED[name]
    main = (
        SIZES + "  Device<float> a(9), b(9); permute<<<(B * H * 3 * W + 255) / 256, 256>>>(a, b, B, H, 3, W);"
    )
    if "jacobi" in code:
        main = SIZES + "  Device<float> a(9), b(9); jacobi<<<(H * W + 255) / 256, 256>>>(a, b, H, W);"
    result, _ = rewritten("index-into-axes", program(code, main))
    assert not result.edits and why in result.refused


def test_a_chain_that_nothing_follows_is_no_step_of_its_own() -> None:
    code, main = PROGRAMS["a running quotient"]
    assert "nothing follows" in rewritten("outputs-in-patches", program(code, main))[0].refused


def test_it_says_how_far_the_other_axes_of_a_grid_reach() -> None:
    code, main = PROGRAMS["a running quotient"]
    assert "65535" in rewritten("index-into-axes", program(code, main))[0].caveat


@pytest.mark.parametrize(("step", "shares"), [("w", True), ("h * w", False), ("7", False)])
def test_a_patch_shares_what_neighbouring_rows_read(step: str, shares: bool) -> None:
    code = (
        "__global__ void k(const float* in, float* out, int w, int h) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= w * h) return;\n"
        "  int x = i % w, y = i / w;\n"
        "  out[y * w + x] = in[y * w + x] + in[y * w + x + STEP] + in[y * w + x + 2 * STEP];\n}\n"
    ).replace("STEP", step)
    main = "  k<<<(argc * 9 + 63) / 64, 64>>>(0, 0, argc, 9);"
    assert bool(rewritten("outputs-in-patches", program(code, main))[0].edits) == shares
