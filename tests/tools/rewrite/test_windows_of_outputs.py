# SPDX-License-Identifier: Apache-2.0
"""Several outputs a thread whose windows overlap: elements by one index each, loops of windows written out."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SLUG = "windows-of-outputs"
ALIKE = """
#define PAD 3
__global__ void alike(const float* padded, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int pitch = width + 2 * PAD;
  const float* here = padded + (y + PAD) * pitch + x + PAD;
  float sum = 0.0f, weights = 0.0f;
  for (int dy = -1; dy <= 1; dy++) {
    for (int dx = -2; dx <= 2; dx++) {
      const float* other = here + dy * pitch + dx;
      float apart = 0.0f;
      for (int j = -1; j <= 1; j++) {
        for (int i = -1; i <= 1; i++) {
          float d = here[j * pitch + i] - other[j * pitch + i];
          apart += d * d;
        }
      }
      float w = 1.0f / (1.0f + apart);
      sum += w * other[0];
      weights += w;
    }
  }
  out[y * width + x] = sum / weights;
}
"""
BLUR = """
#define PAD 3
__global__ void alike(const float* padded, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) {
    float sum = 0.0f;
    for (int j = -2; j <= 2; ++j)
      for (int i = -2; i <= 2; ++i)
        sum += padded[(y + PAD + j) * (width + 2 * PAD) + x + PAD + i] / (2 + i * j);
    out[y * width + x] = sum;
  }
}
"""
RUN = """
  int w = atoi(argv[1]), h = atoi(argv[2]);
  Device<float> a((w + 2 * PAD) * (h + 2 * PAD)), o(w * h, 3);
  dim3 block(16, 4), grid((w + 15) / 16, (h + 3) / 4);
  alike<<<grid, block>>>(a, o, w, h);
  o.show();
"""
SIZES = ((1, 1), (37, 30), (70, 7), (16, 16))


@pytest.mark.parametrize("code", [ALIKE, BLUR])
def test_windows_are_shared(code: str) -> None:
    after = holds(SLUG, program(code, RUN), *SIZES, relative=1e-5, absolute=1e-5)
    inside = after[after.index("if (inside)") : after.index("} else {")]
    lines = [line.strip() for line in inside.splitlines()]
    (window,) = [i for i, line in enumerate(lines) if line.startswith("for (int j")]
    assert lines[window - 1] == "#pragma unroll"
    assert "here[" not in after and "other[" not in after
    assert rewritten(SLUG, after)[0].refused


def test_what_pointers_are_made_of_is_said_of_large_arrays() -> None:
    assert "2^31" in rewritten(SLUG, program(ALIKE, RUN))[0].caveat
    assert "2^31" not in rewritten(SLUG, program(BLUR, RUN))[0].caveat


#: Pointers that stay as they are, though the outputs may still be several.
KEPT = {
    "a sum that begins anew at zero": ALIKE.replace("int pitch", "unsigned pitch"),
    "an index that begins anew at zero": ALIKE.replace("int dx", "unsigned dx").replace("dx = -2", "dx = 0"),
    "a place that is loaded": ALIKE.replace(
        "here + dy * pitch + dx", "here + dy * pitch + (int)padded[dx + 2]"
    ),
    "a cast of an index": ALIKE.replace(
        "other[j * pitch + i]", "other[(unsigned)(j + 1) * pitch + i - pitch]"
    ),
    "a number that is never below zero": ALIKE.replace("other[j * pitch + i]", "other[j * pitch + i * 1u]"),
    "a difference": ALIKE.replace("here + dy * pitch + dx", "here - dy * pitch + dx"),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_pointers_stay(name: str) -> None:
    result, after = rewritten(SLUG, program(KEPT[name], RUN))
    assert result.refused or "other[" in after


@pytest.mark.parametrize(
    "code",
    [
        # no window of constant size
        ALIKE.replace("j <= 1", "j <= width % 3").replace("i <= 1", "i <= width % 3"),
        # one output by another
        BLUR.replace("/ (2 + i * j)", "* threadIdx.y"),
    ],
)
def test_other_kernels_are_left(code: str) -> None:
    assert rewritten(SLUG, program(code, RUN))[0].refused
