# SPDX-License-Identifier: Apache-2.0
"""Outputs of a thread side by side, whose windows slide through registers."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

FIR = """
__global__ void fir(const float* x, const float* h, float* y, int n, int taps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int last = min(taps, i + 1);
  float sum = 0.0f;
  for (int k = 0; k < last; k++) sum += h[k] * x[i - k];
  y[i] = sum;
}
"""
ROLLING = """
__global__ void spread(const double* data, double* out, int days, int window) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x, s = blockIdx.y;
  if (t >= days) return;
  const double* r = data + (size_t)s * days;
  double* o = out + (size_t)s * days;
  if (t < window - 1) {
    o[t] = -1.0;
    return;
  }
  double mean = 0.0;
  for (int k = 0; k < window; k++) mean += r[t - k];
  mean /= window;
  double var = 0.0, most = r[t];
  for (int k = 0; k <= window - 1; k++) {
    double d = r[t - k] - mean;
    if (d > most) most = d;
    var += d * d;
  }
  o[t] = var / window + most;
}
"""
CHANNELS = """
#define R 2
__global__ void conv(const float* in, const float* w, const float* bias, float* out, int channels, int n) {
  int t = threadIdx.x + blockIdx.x * blockDim.x + 1;
  if (t < n) {
    float acc = bias[0];
    for (int c = 0; c < channels; ++c) {
      float own = 0.0f;
      for (int k = -R; k <= R; ++k) {
        own += in[c * (n + 2 * R) + t + k + R] * w[c * (2 * R + 1) + k + R];
      }
      acc += own > 0.0f ? own : 0.5f * own;
    }
    out[t] = acc;
  }
}
"""
CODES = """
__global__ void codes(const unsigned char* seq, unsigned int* out, int length, int k) {
  unsigned int pos = blockDim.x * blockIdx.x + threadIdx.x;
  if (pos + k > length) return;
  unsigned int forward = 0, reverse = 0;
  bool valid = true;
  for (int i = 0; i < k; i++) {
    unsigned int base;
    switch (seq[pos + i] & 7) {
      case 0: base = 0; break;
      case 1: base = 2; break;
      default: base = 1; valid = seq[pos + i] > 3;
    }
    if (base == 2) continue;
    forward = (forward << 2) | base;
    reverse |= (3 - base) << (2 * i);
  }
  out[pos] = valid ? (forward < reverse ? forward : reverse) : 77;
}
"""
PROGRAMS = {
    "windows of different lengths": (
        FIR,
        "  int n = atoi(argv[1]), taps = atoi(argv[2]); Device<float> x(n), h(taps, 2), y(n, 3);\n"
        "  fir<<<(n + 31) / 32, 32>>>(x, h, y, n, taps); y.show();",
        ((100, 9), (1, 1), (50, 70), (227, 16)),
    ),
    "several loops, outputs that end early": (
        ROLLING,
        "  int n = atoi(argv[1]), window = atoi(argv[2]); Device<double> x(3 * n), y(3 * n, 2);\n"
        "  dim3 g((n + 31) / 32, 3); spread<<<g, 32>>>(x, y, n, window); y.show();",
        ((100, 9), (20, 30), (33, 1), (64, 0)),
    ),
    "a loop over channels around it": (
        CHANNELS,
        "  int n = atoi(argv[1]), c = atoi(argv[2]); Device<float> x(c * (n + 4)), w(5 * c, 2), b(1, 5), y(n, 3);\n"
        "  conv<<<dim3((n + 31) / 32), 32>>>(x, w, b, y, c, n); y.show();",
        ((100, 3), (9, 1), (57, 2)),
    ),
    "a choice in each iteration": (
        CODES,
        "  int n = atoi(argv[1]), k = atoi(argv[2]); unsigned char s[500]; unsigned char* d;\n"
        "  Device<unsigned int> y(n); for (int i = 0; i < 500; ++i) s[i] = i * 37 % 11; cudaMalloc((void**)&d, 500);\n"
        "  cudaMemcpy(d, s, 500, cudaMemcpyHostToDevice);\n"
        "  codes<<<(n + 31) / 32, 32>>>(d, y, n, k); y.show();",
        ((100, 5), (300, 15), (9, 8)),
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_windows_slide_through_registers(name: str) -> None:
    code, main, runs = PROGRAMS[name]
    after = holds("windows-in-registers", program(code, main), *runs)
    assert "Window[o" in after or "Window[o2" in after
    assert rewritten("windows-in-registers", after)[0].refused


LAUNCH = (
    "\nvoid run(float* a, float* b, float* c, int n, int k) { fir<<<(n + 31) / 32, 32>>>(a, b, c, n, k); }\n"
)
CHANGES = {
    "a window that the data clips": ("k++) sum", "k++) if (h[k] > 0) sum"),
    "a window that is chosen from": ("* x[i - k]", "* (h[k] < 1 ? x[i - k] : 0.0f)"),
    "what data index": ("[i - k]", "[i - (int)h[k]]"),
    "steps of two": ("k++", "k += 2"),
    "outputs apart": ("x[i - k]", "x[2 * i - k]"),
    "a loop that is left": ("sum += h[k] * x[i - k]", "{ sum += h[k] * x[i - k]; if (sum > 9) break; }"),
    "a loop that the kernel is left from": (
        "sum += h[k] * x[i - k]",
        "{ sum += x[i - k]; if (sum > 9) return; }",
    ),
    "a loop that stores": ("sum += h[k] * x[i - k]", "y[i] += h[k] * x[i - k]"),
    "what its window is stored to": ("const float* x", "float* x"),
    "the thread's place": ("y[i] = sum", "y[i] = sum + threadIdx.x"),
    "outputs that are counted": ("y[i] = sum", "atomicAdd(y, sum)"),
    "a block's memory": ("  float sum", "  __shared__ float s[4];\n  float sum"),
    "a first element that differs": ("k = 0", "k = i % 2"),
    "a parameter that changes": ("  float sum", "  taps -= 1;\n  float sum"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_kernels_are_left_alone(name: str) -> None:
    old, new = CHANGES[name]
    assert old in FIR
    code = FIR.replace(old, new)
    if name == "what its window is stored to":
        code = code.replace("y[i] = sum", "x[i] = sum")
    assert rewritten("windows-in-registers", program(code + LAUNCH, ""))[0].refused


SAME = """
__global__ void same(const float* in, const float* mask, float* out, int K, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float value = 0;
  for (int j = -K; j <= K; j++) {
    int p = i + j;
    if (p < 0 || p >= n) continue;
    value += in[p] * mask[j + K];
  }
  out[i] = value;
}
"""
RUN_SAME = """
  int n = atoi(argv[1]), K = atoi(argv[2]); Device<float> x(n), m(2 * K + 1, 2), y(n, 3);
  same<<<(n + 63) / 64, 64>>>(x, m, y, K, n); y.show();
"""
LOOP = SAME[SAME.index("  float value") : SAME.index("  out[i]")]
TESTED = {
    "skipped by continue": SAME,
    "added where inside": SAME.replace(
        "if (p < 0 || p >= n) continue;\n    value += in[p] * mask[j + K];",
        "if (p >= 0 && p < n) value += in[p] * mask[j + K];",
    ),
    "clamped": SAME.replace(
        "int p = i + j;\n    if (p < 0 || p >= n) continue;", "int p = min(max(i + j, 0), n - 1);"
    ),
    "zero outside": SAME.replace(
        "if (p < 0 || p >= n) continue;\n    value += in[p]", "value += (p >= 0 && p < n ? in[p] : 0.0f)"
    ),
    "from a start, and only then a limit": SAME.replace("  if (i >= n) return;\n", "")
    .replace(
        LOOP,
        """  float value = 0;
  int start = i - K;
  for (int j = 0; j < 2 * K + 1; j++)
    if (start + j >= 0 && start + j < n) value += in[start + j] * mask[j];
""",
    )
    .replace("  out[i]", "  if (i < n) out[i]"),
    "causal": SAME.replace(
        LOOP,
        """  float value = 0;
  for (int j = 0; j <= K; j++) {
    int p = i - K + j;
    if (p >= 0) value += in[p] * mask[j];
  }
""",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", TESTED)
def test_windows_with_an_end_slide_where_they_are_inside(name: str) -> None:
    after = holds("windows-in-registers", program(TESTED[name], RUN_SAME), (300, 4), (30, 3), (5, 8))
    assert "inside = inside &&" in after
    assert rewritten("windows-in-registers", after)[0].refused


ROWS = """
#define R 3
__constant__ float weights[2 * R + 1];
__global__ void rows(const float* src, float* dst, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  float s = 0.0f;
  for (int k = -R; k <= R; k++) {
    int xx = x + k;
    if (xx >= 0 && xx < w) s += src[y * w + xx] * weights[R - k];
  }
  dst[y * w + x] = s;
}
"""


@pytest.mark.compiler
def test_rows_of_a_picture_slide_along_x() -> None:
    main = """
  int w = atoi(argv[1]), h = 5; Device<float> x(w * h), y(w * h, 2); float f[7] = {1, 2, 3, 4, 3, 2, 1};
  cudaMemcpyToSymbol(weights, f, sizeof(f));
  rows<<<dim3((w + 31) / 32, (h + 3) / 4), dim3(32, 4)>>>(x, y, w, h); y.show();
"""
    assert "srcWindow" in holds("windows-in-registers", program(ROWS, main), (333,), (6,))


PADDED = """
__global__ void padded(const float* in, const float* k, float* out, int w, int h, int ks) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  int r = ks / 2;
  float s = 0.0f;
  for (int j = 0; j < ks; j++) {
    int yy = y + j - r;
    if (yy < 0 || yy >= h) continue;
    for (int i = 0; i < ks; i++) {
      int xx = x + i - r;
      if (xx < 0 || xx >= w) continue;
      s += in[yy * w + xx] * k[j * ks + i];
    }
  }
  out[y * w + x] = s;
}
"""
RUN_PADDED = """
  int w = atoi(argv[1]), h = 9, ks = atoi(argv[2]); Device<float> x(w * h), k(ks * ks, 2), y(w * h, 3);
  padded<<<dim3((w + 31) / 32, (h + 3) / 4), dim3(32, 4)>>>(x, k, y, w, h, ks); y.show();
"""
ROW_TEST = "    int yy = y + j - r;\n    if (yy < 0 || yy >= h) continue;\n"
COLUMN_TEST = "      int xx = x + i - r;\n      if (xx < 0 || xx >= w) continue;\n"


@pytest.mark.compiler
@pytest.mark.parametrize("together", [False, True], ids=["rows are skipped", "asked together"])
def test_planes_that_are_padded_slide_along_x(together: bool) -> None:
    code = PADDED
    if together:
        code = code.replace(ROW_TEST, "").replace(COLUMN_TEST, "      int yy = y + j - r, xx = x + i - r;\n")
        code = code.replace("      s +=", "      if (yy >= 0 && yy < h && xx >= 0 && xx < w) s +=")
    after = holds("windows-in-registers", program(code, RUN_PADDED), (70, 5), (9, 3))
    assert "inWindow[o] * k[j * ks + i]" in after
    assert ("if (yy < 0 || yy >= h) continue;" in after) is not together


def test_rows_that_data_skip_are_left_alone() -> None:
    asked = PADDED.replace("yy >= h) continue", "k[j * ks] > 9) continue")
    assert rewritten("windows-in-registers", program(asked, RUN_PADDED))[0].refused


MATCH = """
__global__ void match(const unsigned char* left, const unsigned char* right, int* best, int w, int h, int most) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 2 || y < 2 || x >= w - 2 || y >= h - 2) return;
  int least = 1 << 30, at = 0;
  for (int d = 0; d < most; d++) {
    if (x - d - 2 < 0) break;
    int cost = 0;
    for (int j = -2; j <= 2; j++)
      for (int i = -2; i <= 2; i++) {
        int l = left[(y + j) * w + x + i];
        int r = right[(y + j) * w + x + i - d];
        cost += abs(l - r);
      }
    if (cost < least) {
      least = cost;
      at = d;
    }
  }
  best[y * w + x] = at;
}
"""
RUN_MATCH = """
  int w = atoi(argv[1]), h = 9; Device<unsigned char> l(w * h), r(w * h, 2); Device<int> b(w * h, 3);
  match<<<dim3((w + 31) / 32, (h + 3) / 4), dim3(32, 4)>>>(l, r, b, w, h, atoi(argv[2])); b.show();
"""
BREAK = "    if (x - d - 2 < 0) break;\n"
ENDS = {
    "left where it would lie outside": MATCH,
    "by a condition of two": MATCH.replace(BREAK, "").replace("d < most;", "d < most && x - d >= 2;"),
    "by a place of the step's own": MATCH.replace(BREAK, "    int p = x - d;\n    if (p < 2) break;\n"),
    "upward": MATCH.replace(BREAK, "    if (x + d + 2 > w - 1) break;\n").replace("+ i - d", "+ i + d"),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", ENDS)
def test_windows_that_are_shifted_slide_in_each_shift(name: str) -> None:
    after = holds("windows-in-registers", program(ENDS[name], RUN_MATCH), (70, 9), (12, 40))
    assert "rightWindow" in after
    assert "break" not in after


NOT_ENDS = {
    "by the data": MATCH.replace("if (x - d - 2 < 0)", "if (right[x - d] == 0)"),
    "by what the loop changes": MATCH.replace("if (x - d - 2 < 0)", "if (least - d < 0)"),
    "a product": MATCH.replace("x - d - 2 < 0", "x - d * d < 2"),
    "for good only later": MATCH.replace("x - d - 2 < 0", "x - d - 2 > 9"),
}


@pytest.mark.parametrize("name", NOT_ENDS)
def test_other_loops_around_windows_are_left_alone(name: str) -> None:
    assert rewritten("windows-in-registers", program(NOT_ENDS[name], RUN_MATCH))[0].refused


DEPTHWISE = """
__global__ void depthwise(const float* x, const float* w, float* y, int batch, int channels, int length, int taps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * channels * length) return;
  int t = i % length;
  int c = i / length % channels;
  int b = i / (length * channels);
  float sum = 0.0f;
  for (int k = 0; k < taps; ++k) {
    int p = t + k - taps / 2;
    if (p >= 0 && p < length) sum += w[c * taps + k] * x[(b * channels + c) * length + p];
  }
  y[i] = sum;
}
"""


@pytest.mark.compiler
def test_windows_along_a_divided_number_slide_too() -> None:
    main = """
  int n = atoi(argv[1]), taps = atoi(argv[2]); Device<float> x(6 * n), w(3 * taps, 2), y(6 * n, 3);
  depthwise<<<(6 * n + 63) / 64, 64>>>(x, w, y, 2, 3, n, taps); y.show();
"""
    after = holds("axes-in-windows", program(DEPTHWISE, main), (90, 5), (7, 4))
    assert "/ length" not in after
    assert "int p" not in after[: after.index("#pragma unroll 1")]
