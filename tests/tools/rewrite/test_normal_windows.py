# SPDX-License-Identifier: Apache-2.0
"""Windows clipped at the edges, in the form that rewrites read."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program

from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.base import slides
from warplens_tools.rewrite.common.normal_forms import plainly
from warplens_tools.text import SourceText

MEAN = """
__global__ void mean(const float* in, float* out, int w, int h, int r) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  int x0 = x - r < 0 ? 0 : x - r;
  int x1 = min(x + r, w - 1);
  int y0 = max(0, y - r), y1 = y + r;
  if (y1 >= h) y1 = h - 1;
  float s = 0.0f;
  for (int j = y0; j <= y1; j++) {
    for (int i = x0; i <= x1; i++) s += in[j * w + i];
  }
  out[y * w + x] = s / ((x1 - x0 + 1) * (y1 - y0 + 1));
}
void run(const float* in, float* out, int w, int h, int r) {
  dim3 block(16, 16), grid((w + 15) / 16, (h + 15) / 16);
  mean<<<grid, block>>>(in, out, w, h, r);
}
"""
TRAILING = """
__global__ void average(const float* price, float* out, int days, int window) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= days) return;
  int start = t - window + 1;
  if (start < 0) start = 0;
  float sum = 0.0f;
  for (int j = start; j <= t; j++) sum += price[j];
  out[t] = sum / (t - start + 1);
}
void run(const float* x, float* y, int n, int w) { average<<<(n + 127) / 128, 128>>>(x, y, n, w); }
"""
DILATE = """
__global__ void dilate(const unsigned char* in, unsigned char* out, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  unsigned char most = 0;
  for (int dy = -2; dy <= 2; dy++)
    for (int dx = -2; dx <= 2; dx++) {
      int yy = y + dy;
      int xx = x + dx;
      if (yy < 0) yy = 0;
      else if (yy >= h) yy = h - 1;
      if (xx < 0) { xx = 0; }
      xx = min(xx, w - 1);
      most = max(most, in[yy * w + xx]);
    }
  out[y * w + x] = most;
}
void run(const unsigned char* in, unsigned char* out, int w, int h) {
  dim3 block(32, 8), grid((w + 31) / 32, (h + 7) / 8);
  dilate<<<grid, block>>>(in, out, w, h);
}
"""
CHUNK = """
__global__ void scale(float* x, int n, int each) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  int start = t * each;
  for (int i = start; i < min(start + each, n); ++i) x[i] *= 2.0f;
}
"""
WINDOW = "  int w = atoi(argv[1]), h = atoi(argv[2]); Device<%s> x(w * h), y(w * h, 2); run(x, y, w, h%s); y.show();"
LINE = "  int n = atoi(argv[1]), w = atoi(argv[2]); Device<float> x(n), y(n, 2); run(x, y, n, w); y.show();"


def changed(code: str) -> str:
    text = SourceText(code)
    after = plainly(text, "k.cu", parse(text, "k.cu").kernels[0])
    return after.text if after is not None else code


def test_bounds_stand_in_declarations() -> None:
    after = changed(DILATE)
    assert (
        "int yy = min(max(y + dy, 0), h - 1);\n      int xx = min(max(x + dx, 0), w - 1);\n      most"
        in after
    )
    assert changed(after) == after


def test_clipped_loops_go_around_the_output() -> None:
    after = changed(MEAN)
    assert "for (int dj = -r; dj <= r; ++dj) {\n    const int j = y + dj;" in after
    assert "if (i >= 0 && i <= w - 1) s += in[j * w + i];" in after
    assert "int x0 = max(x - r, 0);" in after
    assert "int y0 = max(0, y - r), y1 = min(y + r, h - 1);" in after
    assert "for (int dj = -window + 1; dj <= 0; ++dj) {" in changed(TRAILING)


@pytest.mark.parametrize(
    ("code", "old", "new"),
    [
        (TRAILING, "start = 0;", "start = t;"),
        (TRAILING, "int start", "unsigned int start"),
        (TRAILING, "start < 0", "price[t] < 0"),
        (TRAILING, "sum += price[j];", "{ sum += price[j]; j++; }"),
        (CHUNK, "each)", "each )"),
    ],
)
def test_other_text_stays(code: str, old: str, new: str) -> None:
    other = code.replace(old, new)
    assert other != code
    assert "for (int dj" not in changed(other)
    assert "for (int di" not in changed(other)


def test_a_bound_stays_behind_what_it_rests_on() -> None:
    lines = "      int yy = y + dy;\n", "      int xx = x + dx;\n"
    other = DILATE.replace("xx = min(xx, w - 1)", "xx = min(xx, yy)").replace(
        "".join(lines), "".join(lines[::-1])
    )
    assert "int xx = max(x + dx, 0);" in changed(other)
    assert "      xx = min(xx, yy);" in changed(other)


@pytest.mark.parametrize(
    ("slug", "text", "runs"),
    [
        ("fold-rows-once", program(MEAN, WINDOW % ("float", ", 4")), (45, 37)),
        ("halo-tile", program(DILATE, WINDOW % ("unsigned char", "")), (45, 37)),
        ("fold-groups-once", program(TRAILING, LINE), (700, 40)),
    ],
)
def test_rewrites_read_them(slug: str, text: str, runs: tuple[int, ...]) -> None:
    holds(slug, text, runs, relative=1e-4, absolute=1e-4)


def test_windows_beside_each_other_are_no_rows() -> None:
    rows = "int i = blockIdx.x * blockDim.x + threadIdx.x; for (int k = 0; k < n; ++k) s += a[%s];"
    assert slides(TRAILING) < 1
    assert slides(rows % "i + k") < 1
    assert slides(rows % "k + i") < 1
    assert slides(rows % "i * n + k") == 1
    assert slides(rows % "k * n + i") == 1
