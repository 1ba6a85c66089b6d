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
    assert slides(rows % "i + k * n") == 1
    lags = "int l = threadIdx.x; for (int i = 0; i < n - l; i++) s += x[i] * x[i + l];"
    assert slides(lags) == 1


HIGHEST = """
__global__ void highest(const float* x, float* y, int n, int window) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= n) return;
  float best = x[t];
  for (int k = 1; k < window; k++) {
    if (t - k < 0) break;
    if (x[t - k] > best) best = x[t - k];
  }
  y[t] = best;
}
void run(const float* x, float* y, int n, int w) { highest<<<(n + 127) / 128, 128>>>(x, y, n, w); }
"""
LOWEST = """
__global__ void lowest(const int* x, int* y, int n, int window) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t < n) {
    int least = x[t];
    for (int k = 0; k < window; ++k) {
      int at = t + k;
      if (n <= at) { break; }
      least = min(least, x[at]);
    }
    y[t] = least;
  }
}
void run(const int* x, int* y, int n, int w) { lowest<<<(n + 127) / 128, 128>>>(x, y, n, w); }
"""
AROUND = """
__global__ void around(const float* x, float* y, int n, int w) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  int count = 0;
  for (int k = i - w / 2; k <= i + w / 2; k++) {
    if (k >= 0 && k < n) { sum += x[k]; count++; }
  }
  y[i] = sum / count;
}
void run(const float* x, float* y, int n, int w) { around<<<(n + 127) / 128, 128>>>(x, y, n, w); }
"""


@pytest.mark.compiler
@pytest.mark.parametrize(("code", "kind"), [(HIGHEST, "float"), (LOWEST, "int"), (AROUND, "float")])
def test_windows_that_are_left_or_begin_at_an_element(code: str, kind: str) -> None:
    main = (
        "  int n = atoi(argv[1]), w = atoi(argv[2]);\n"
        f"  Device<{kind}> x(n), y(n, 2); run(x, y, n, w); y.show();"
    )
    after = holds("fold-groups-once", program(code, main), (3000, 40), (500, 9), (70, 100), relative=1e-5)
    assert "Groups[" in after


def plain(code: str) -> str:
    text = SourceText(code)
    model = parse(text, "k.cu")
    found = plainly(text, "k.cu", model.kernels[0])
    return found.text if found is not None else code


@pytest.mark.parametrize(
    "test",
    [
        "if (x[t - k] < 0) break;",
        "if (t + k < 0) break;",
        "if (t - k > 9) break;",
        "if (t - k == 0) break;",
        "if (t - k < n - k) break;",
        "if (t - 2 * k < 0) { n--; break; }",
        "if (t - k < 0) break; else best = 0;",
        "best += 1; if (t - k < 0) break;",
    ],
)
def test_loops_that_may_go_on_inside_are_left_as_they_are(test: str) -> None:
    assert "break" in plain(HIGHEST.replace("if (t - k < 0) break;", test))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("best = x[t - k];", "{ best = x[t - k]; y[0] = k; }"),
        ("if (x[t - k] > best)", "if (x[t - k] > best + 1)"),
        ("best = x[t - k];", "best += x[t - k];"),
        (
            "  y[t]",
            "  best = best < 0 ? 0 : best;\n  for (int k = 0; k < 2; k++) best = fminf(best, k);\n  y[t]",
        ),
        ("float best = x[t]", "float best = 3"),
    ],
)
def test_only_extremes_begin_at_nothing(old: str, new: str) -> None:
    is_other = "fminf" in new
    assert ("INFINITY" in plain(HIGHEST.replace(old, new))) == is_other
