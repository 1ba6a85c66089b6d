# SPDX-License-Identifier: Apache-2.0
"""Axes permuted through shared memory: programs print the same on the host, at extents that no tile divides."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SLUG = "permute-tile"
LAST = """
__global__ void nchw_to_nhwc(const float* in, float* out, int N, int C, int H, int W) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx >= N * C * H * W) return;
  int w = idx % W;
  int h = (idx / W) % H;
  int c = (idx / (W * H)) % C;
  int n = idx / (W * H * C);
  out[((n * H + h) * W + w) * C + c] = in[idx];
}
void run(const float* a, float* b, int n, int c, int h, int w) {
  nchw_to_nhwc<<<(n * c * h * w + 255) / 256, 256>>>(a, b, n, c, h, w);
}
"""
FIRST = """
__global__ void to_planes(const unsigned char *src, float *dst, int n, int channels, int rows, int cols, float scale)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t total = (size_t)n * rows * cols * channels;
    if (i < total) {
        size_t rest = i;
        int ch = rest % channels;
        rest /= channels;
        int x = rest % cols;
        rest /= cols;
        int y = rest % rows;
        int image = rest / rows;
        float v = src[i] * scale;
        dst[(((size_t)image * channels + ch) * rows + y) * cols + x] = v;
    }
}
void run(const unsigned char* a, float* b, int n, int c, int h, int w) {
    size_t total = (size_t)n * c * h * w;
    to_planes<<<(unsigned)((total + 127) / 128), 128>>>(a, b, n, c, h, w, 0.5f);
}
"""
BATCHED = """
__global__ void transpose_all(double* out, const double* in, int count, int rows, int cols) {
  const int t = blockIdx.x * 256 + threadIdx.x;
  const int size = rows * cols;
  if (t >= count * size) return;
  const int b = t / size;
  const int rest = t % size;
  const int i = rest / cols;
  const int j = rest % cols;
  out[b * size + j * rows + i] = in[t];
}
void run(const double* a, double* b, int n, int c, int h, int w) {
  transpose_all<<<(n * c * h * w + 255) / 256, 256>>>(b, a, n * c, h, w);
}
"""
MAIN = (
    "  int n = atoi(argv[1]), c = atoi(argv[2]), h = atoi(argv[3]), w = atoi(argv[4]);\n"
    "  Device<%s> a(n * c * h * w); Device<%s> b(n * c * h * w, 2); run(a, b, n, c, h, w); b.show();"
)
PROGRAMS = {
    "channels last": (LAST, MAIN % ("float", "float")),
    "channels first, counted down": (FIRST, MAIN % ("unsigned char", "float")),
    "many transposes": (BATCHED, MAIN % ("double", "double")),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_axes_are_permuted_through_a_tile(name: str) -> None:
    after = holds(SLUG, program(*PROGRAMS[name]), (2, 3, 5, 37), (1, 40, 3, 33), (3, 1, 1, 7))
    assert "__shared__" in after
    assert rewritten(SLUG, after)[0].refused


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("* C + c] = in[idx]", "* C + c] += in[idx]"),
        ("out[((n * H + h) * W + w) * C + c]", "out[((c * H + h) * N + n) * W + w]"),  # the fastest stays
        ("int h = (idx / W) % H;", "int h = (idx / 3) % H;"),
        ("int c = (idx / (W * H)) % C;", "int c = (idx / (W * H)) % w;"),
        ("if (idx >= N * C * H * W) return;", ""),
        ("if (idx >= N * C * H * W) return;", "if (idx >= N * C * H * W - 5) return;"),
        ("= in[idx];", "= in[idx]; out[0] = 1;"),
        ("out[((", 'printf("%d", w); out[(('),
    ],
)
def test_what_is_no_permutation_is_left(old: str, new: str) -> None:
    assert old in LAST
    assert rewritten(SLUG, LAST.replace(old, new))[0].refused
