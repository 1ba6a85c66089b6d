# SPDX-License-Identifier: Apache-2.0
"""Windows that are asked once whether they are inside, alone and for several outputs of a column."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

from warplens_tools.rewrite.base import in_a_divided_plane, in_a_plane

PLANE = """
template <int R> __device__ float weight(int i) { return 1.0f / (1 + R + i); }
__global__ void window(const float* in, float* out, int width, int height, int radius) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float sum = 0.0f;
  BODY
  out[y * width + x] = sum;
}
"""
MAIN = (
    "  int w = atoi(argv[1]), h = atoi(argv[2]); Device<float> a(w * h), b(w * h, 2);\n"
    "  window<<<dim3((w + 15) / 16, (h + 3) / 4), dim3(16, 4)>>>(a, b, w, h, 2); b.show();"
)
BODIES = {
    "clamped by the loop's own bounds": """for (int k = max(0, x - radius); k <= min(width - 1, x + radius); k++)
    for (int r = max(0, y - 1); r < min(height, y + 2); r++) sum += in[r * width + k] * weight<2>(k - x);""",
    "clamped": """for (int j = -2; j <= 2; j++)
    for (int i = -radius; i <= radius; i++) {
      int r = min(max(y + j, 0), height - 1), c = max(0, min(x + i, width - 1));
      sum += in[r * width + c] * weight<2>(j * i);
    }""",
    "padded": """for (int j = 0; j < 3; j++) {
    int row = y - 1 + j;
    if (row < 0 || row >= height) continue;
    #pragma unroll
    for (int i = 0; i < 2 * radius + 1; ++i) {
      int col = x + i - radius;
      if (col >= 0 && col < width) sum += in[row * width + col] * (i + j);
    }
  }""",
    "chosen": "sum = in[y * width + (x < 1 ? 0 : x - 1)] + (x + 2 < width ? in[y * width + x + 2] : 7.0f);",
    "named": """int left = max(x - 1, 0), right = min(x + 1, width - 1);
  const float* below = in + (size_t)min(y + 1, height - 1) * width;
  sum = below[left] - below[right] + fminf(below[x], 3.0f);""",
    "early": """if (y < radius || x < 1) {
    out[y * width + x] = -1.0f;
    return;
  }
  sum = in[(y - radius) * width + x - 1];""",
}
SIZES = ((37, 19), (5, 3), (1, 1), (64, 8))


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("slug", "name"),
    [
        *(("inside-without-tests", name) for name in BODIES if name != "early"),
        *(
            ("march-inside", name)
            for name in BODIES
            if "radius; i" not in BODIES[name] and not name.startswith(("padded", "clamped by"))
        ),
    ],
)
@pytest.mark.sampled(3)
def test_what_is_inside_is_not_tested(slug: str, name: str) -> None:
    after = holds(slug, program(PLANE.replace("BODY", BODIES[name]), MAIN), *SIZES)
    inside = after[after.index("if (inside)") : after.index("} else {")]
    assert not any(test in inside for test in ("min(", "max(", "continue", " ? ", "return"))
    assert rewritten("inside-without-tests", after)[0].refused


DIVIDED = """
__global__ void depthwise(const float* in, const float* w, float* out, int planes, int height, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= planes * height * width) return;
  int x = i % width, y = i / width % height, p = i / width / height;
  float sum = 0.0f;
  for (int r = 0; r < 3; r++)
    for (int s = 0; s < 3; s++) {
      int row = y - 1 + r, col = x - 1 + s;
      if (row >= 0 && row < height && col >= 0 && col < width) {
        sum += in[(p * height + row) * width + col] * w[p * 9 + r * 3 + s];
      }
    }
  out[i] = sum;
}
"""


@pytest.mark.compiler
def test_one_number_is_divided_before() -> None:
    main = (
        "  int h = atoi(argv[1]), w = atoi(argv[2]); Device<float> a(3 * h * w), k(27, 5), b(3 * h * w, 2);\n"
        "  depthwise<<<(3 * h * w + 63) / 64, 64>>>(a, k, b, 3, h, w); b.show();"
    )
    after = holds("march-inside", program(DIVIDED, main), (19, 37), (3, 2), (1, 1))
    assert "if (inside)" in after and "kOutputs" in after


def test_outputs_that_one_number_is_divided_into_lie_in_a_plane() -> None:
    assert in_a_divided_plane(DIVIDED) == 1.0 > in_a_plane(DIVIDED)
    without = DIVIDED.replace("i % width", "3").replace("i / width", "2")
    assert in_a_divided_plane(without) == in_a_plane(without)


CHANGES = {
    "data": "if (sum < 3.0f) sum += in[y * width + x];",
    "numbers without a sign": "sum = in[y * width + max(x - 1u, 0u)];",
    "what the thread's number does not decide": "sum = in[min(width, radius)];",
    "a limit that data give": "sum = in[min(x, (int)in[0])];",
    "steps of two": "for (int k = 0; k < 4; k += 2) sum += in[min(x + k, width - 1)];",
    "a variable that changes": "int at = x - 1; at *= 2; sum = in[max(at, 0)];",
    "a block's memory": "__shared__ float s[4]; s[0] = 1; sum = in[max(x - 1, 0)];",
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_tests_are_left_alone(name: str) -> None:
    code = PLANE.replace("BODY", CHANGES[name])
    if name == "numbers without a sign":
        code = code.replace("int x =", "unsigned x =")
    assert rewritten("inside-without-tests", program(code, MAIN))[0].refused
