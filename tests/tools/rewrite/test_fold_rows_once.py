# SPDX-License-Identifier: Apache-2.0
"""Windows whose rows are folded once: programs print the same on the host, whatever the window's size."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SLUG = "fold-rows-once"
ERODE = """
typedef unsigned char uchar;
__global__ void erode(const uchar *src, uchar *dst, int width, int height, int radius)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;

    uchar darkest = 255;
    for (int dy = -radius; dy <= radius; dy++) {
        for (int dx = -radius; dx <= radius; dx++) {
            int xx = x + dx;
            int yy = y + dy;
            if (xx >= 0 && xx < width && yy >= 0 && yy < height) {
                uchar v = src[yy * width + xx];
                if (v < darkest)
                    darkest = v;
            }
        }
    }
    dst[y * width + x] = darkest;
}
void run(const uchar* a, uchar* b, int w, int h, int r) {
  dim3 block(16, 16);
  dim3 grid((w + block.x - 1) / block.x, (h + block.y - 1) / block.y);
  erode<<<grid, block>>>(a, b, w, h, r);
}
"""
BYTES = (
    "  int w = atoi(argv[1]), h = atoi(argv[2]), r = atoi(argv[3]);\n"
    "  Device<unsigned char> a(w * h), b(w * h, 2); run(a, b, w, h, r); b.show();"
)
FLOATS = BYTES.replace("unsigned char", "float")
MEAN = """
__global__ void mean(float* out, const float* in, int w, int h, int k) {
  const int y = threadIdx.y + blockIdx.y * blockDim.y, x = threadIdx.x + blockIdx.x * blockDim.x;
  if (x < w && y < h) {
    int half = k / 2, count = 0;
    float sum = 0.0f;
    for (int j = -half; j < k - half; ++j) {
      int row = y + j;
      if (row < 0 || row >= h) continue;
      const float* line = in + row * w;
      for (int i = -half; i < k - half; ++i) {
        if (x + i < 0) continue;
        if (x + i < w) { sum += line[x + i]; ++count; }
      }
    }
    out[y * w + x] = sum / count;
  }
}
void run(const float* a, float* b, int w, int h, int r) {
  mean<<<dim3((w + 31) / 32, (h + 7) / 8), dim3(32, 8)>>>(b, a, w, h, 2 * r);
}
"""
INSIDE = """
#define R 2
__global__ void dilate(const float* in, float* out, unsigned int w, unsigned int h, size_t pitch) {
  unsigned int x = blockIdx.x * 16 + threadIdx.x;
  unsigned int y = blockIdx.y * 16 + threadIdx.y;
  if (x < R || y < R || x >= w - R || y >= h - R) return;
  float most = -1e30f;
  for (int j = 0; j < 2 * R + 1; j++)
    for (int i = 0; i < 2 * R + 1; i++)
      most = fmaxf(most, in[(y + j - R) * pitch + (x + i - R)]);
  if (most > 0) out[y * pitch + x] = most;
}
void run(const float* a, float* b, int w, int h, int r) {
  dilate<<<dim3((w + 15) / 16, (h + 15) / 16), dim3(16, 16)>>>(a, b, w, h, w);
}
"""
PROGRAMS = {"bytes": (ERODE, BYTES), "a mean and a count": (MEAN, FLOATS), "inside": (INSIDE, FLOATS)}
#: Windows of one element, of a few, and of more rows than are held at a time.
SIZES = ((70, 150, 1), (33, 65, 3), (5, 7, 2), (40, 90, 21))


@pytest.mark.compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_of_windows_are_folded_once(name: str) -> None:
    after = holds(SLUG, program(*PROGRAMS[name]), *SIZES, relative=2e-5, absolute=1e-5)
    assert "__syncthreads" in after
    assert rewritten(SLUG, after)[0].refused


def test_only_sums_of_floats_may_change() -> None:
    assert rewritten(SLUG, ERODE)[0].caveat == ""
    assert rewritten(SLUG, INSIDE)[0].caveat == ""
    assert "order" in rewritten(SLUG, MEAN)[0].caveat


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("uchar v = src[yy * width + xx];", "uchar v = src[yy * width + xx] + dy;"),  # a weight of the row
        ("uchar v = src[yy * width + xx];", "uchar v = src[yy * width + xx] + src[y * width + x];"),
        ("int yy = y + dy;", "int yy = y + 2 * dy;"),
        ("int yy = y + dy;", "int yy = 2 * y + dy;"),
        ("int yy = y + dy;", "int yy = y ^ dy;"),
        ("for (int dx = -radius;", "for (int dx = -(radius - dy);"),
        ("for (int dy = -radius;", "for (int dy = -(x % 3);"),
        ("darkest = v;", "darkest = dx;"),
        ("darkest = v;", "{ darkest = v; if (v == 0) break; }"),
        ("uchar darkest = 255;", "uchar darkest = src[y * width + x] + 1;"),
        ("if (v < darkest)", "if (v + darkest < 9)"),
        ("uchar v =", "dst[0] = 3; uchar v ="),
        ("x >= width || y >= height", "x >= width || y >= height || y % 2"),
        ("x >= width || y >= height", "x >= width || y >= height || y < x"),
        ("x >= width || y >= height", "x >= width"),
    ],
)
def test_what_differs_from_window_to_window_is_left(old: str, new: str) -> None:
    assert old in ERODE
    assert rewritten(SLUG, ERODE.replace(old, new))[0].refused


@pytest.mark.parametrize(
    "helper",
    [
        "__device__ uchar darker(uchar a, uchar b) { return a < b ? a : b; }",
        "template <typename T> __device__ __forceinline__ T darker(const T& a, const T& b) { return (b > a) ? a : b; }",
        "__device__ inline uchar darker(uchar one, uchar other) { return min(one, other); }",
    ],
)
def test_a_function_of_the_file_that_folds_is_a_fold(helper: str) -> None:
    called = ERODE.replace(
        "if (v < darkest)\n                    darkest = v;", "darkest = darker(darkest, v);"
    )
    code = called.replace("__global__", f"{helper}\n__global__", 1)
    after = holds(SLUG, program(code, BYTES), (70, 37, 3))
    assert "darkest[o] = darker(darkest[o], darkestRows" in after


@pytest.mark.parametrize("value", ["a < b ? a : a", "a - b", "a < b ? b : b", "a < 3 ? a : b"])
def test_a_function_that_does_not_fold_is_none(value: str) -> None:
    helper = f"__device__ uchar darker(uchar a, uchar b) {{ return {value}; }}\n__global__"
    called = ERODE.replace(
        "if (v < darkest)\n                    darkest = v;", "darkest = darker(darkest, v);"
    )
    result, _ = rewritten(SLUG, called.replace("__global__", helper, 1))
    assert not result.edits


@pytest.mark.compiler
def test_many_sums_leave_room_for_fewer_outputs() -> None:
    sums = "abcde"
    body = "".join(f"      s{n} += v * {i + 1} + i;\n" for i, n in enumerate(sums))
    code = (
        "__global__ void moments(const float* in, float* out, int w, int h) {\n"
        "  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;\n"
        "  if (x >= w || y >= h) return;\n"
        f"  float {', '.join(f's{n} = 0' for n in sums)};\n"
        "  for (int j = -2; j <= 2; j++)\n    for (int i = -2; i <= 2; i++) {\n"
        "      float v = in[min(max(y + j, 0), h - 1) * w + min(max(x + i, 0), w - 1)];\n"
        f"{body}    }}\n"
        "  out[y * w + x] = sa + sb * 2 + sc - sd + se * sa;\n}\n"
    )
    main = (
        "  int w = atoi(argv[1]), h = atoi(argv[2]); Device<float> a(w * h), b(w * h, 2);\n"
        "  moments<<<dim3((w + 15) / 16, (h + 15) / 16), dim3(16, 16)>>>(a, b, w, h); b.show();"
    )
    after = holds(SLUG, program(code, main), (37, 50), (5, 90), relative=1e-4, absolute=1e-2)
    assert "kOutputs = 4" in after


@pytest.mark.compiler
def test_what_begins_at_the_pixel_itself_has_it_behind_the_window() -> None:
    code = ERODE.replace("uchar darkest = 255;", "uchar darkest = src[y * width + x];")
    after = holds(SLUG, program(code, BYTES), (37, 20, 3), (9, 70, 1))
    assert "if (src[y * width + x] < darkest[o]) darkest[o] = src[y * width + x];" in after
