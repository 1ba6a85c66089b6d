# SPDX-License-Identifier: Apache-2.0
"""Roots behind the loops that look for the least or the largest of them: the same to the last bit."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SLUG = "root-after-fold"
APART = "__device__ float apart(float x, float y) {\n  float d = x - y;\n  return sqrtf(d * d + 0.25f);\n}\n"
MAIN = """
  int n = atoi(argv[1]), m = atoi(argv[2]);
  std::vector<float> points(n), line(m + 1), out(n);
  for (int i = 0; i < n; i++) points[i] = 0.37f * (i * 29 % 31) - 4.0f;
  for (int i = 0; i < m; i++) line[i] = 0.11f * (i * 17 % 101) - 3.0f;
  float *a, *b, *o;
  cudaMalloc(&a, n * sizeof(float));
  cudaMalloc(&b, (m + 1) * sizeof(float));
  cudaMalloc(&o, n * sizeof(float));
  cudaMemcpy(a, points.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(b, line.data(), (m + 1) * sizeof(float), cudaMemcpyHostToDevice);
  nearest<<<(n + 63) / 64, 64>>>(a, b, o, n, m);
  cudaMemcpy(out.data(), o, n * sizeof(float), cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; i++) printf("%a\\n", out[i]);
"""


def kernel(body: str, helpers: str = "") -> str:
    head = "__global__ void nearest(const float* points, const float* line, float* out, int n, int m) {\n"
    number = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n"
    return f"{helpers}{head}{number}{body}\n  out[i] = least;\n}}\n"


def fold(value: str, call: str = "fminf", begin: str = "INFINITY", kind: str = "float") -> str:
    return (
        f"  {kind} least = {begin};\n  for (int v = 0; v < m; ++v) {{\n    float dx = points[i] - line[v];\n"
        f"    least = {call}(least, {value});\n  }}"
    )


@pytest.mark.parametrize(
    ("body", "helpers"),
    [
        (fold("sqrtf(dx * dx)"), ""),
        (fold("sqrtf(dx * dx + 0.5f)", "min"), ""),
        (fold("std::sqrt((dx * dx) + points[i] * points[i])", "fmaxf", "0.0f"), ""),
        (fold("apart(points[i], line[v])"), APART),
        (
            "  float least = INFINITY;\n  for (int u = 0; u < 2; ++u)\n    for (int v = u; v < m; v += 2)\n"
            "      least = fminf(apart(points[i], line[v]), least);",
            APART,
        ),
    ],
)
def test_the_root_is_taken_behind_the_loop(body: str, helpers: str) -> None:
    after = holds(SLUG, program(kernel(body, helpers), MAIN), (100, 57), (3, 1), (1, 0))
    inside = after[after.index("for (int v") : after.index("out[i] = least")]
    assert inside.count("sqrt") == 1 and "= sqrtf(leastSquared);" in inside


def test_a_function_that_others_call_keeps_its_root() -> None:
    text = kernel(fold("apart(points[i], line[v])"), APART).replace(
        "out[i] = least", "out[i] = least + apart(0, 1)"
    )
    after = holds(SLUG, program(text, MAIN), (100, 57), (3, 1))
    assert "return sqrtf(d * d + 0.25f);" in after and "return d * d + 0.25f;" in after
    assert "out[i] = least + apart(0, 1);" in after


@pytest.mark.parametrize(
    ("body", "helpers"),
    [
        # what is below zero would hide the others
        (fold("sqrtf(dx)"), ""),
        (fold("sqrtf(dx * dx - 1.0f)"), ""),
        # begins as what is no root of it
        (fold("sqrtf(dx * dx)", begin="10.0f"), ""),
        (fold("sqrtf(dx * dx)", "fmaxf", "-1.0f"), ""),
        # rounds elsewhere
        (fold("sqrt((double)dx * dx)"), ""),
        (fold("sqrtf(dx * dx)", "fmin", kind="double"), ""),
        # asked for in its loop
        (fold("sqrtf(dx * dx)").replace("\n  }", "\n    if (least < 1.0f) break;\n  }"), ""),
        (fold("sqrtf(dx * dx)").replace("  for", "  least += 1.0f;\n  for"), ""),
        # a root of the file's own
        (fold("sqrtf(dx * dx)"), "__device__ float sqrtf(float x) { return x + 1; }\n"),
        (fold("apart(points[i], line[v])"), APART.replace("d * d + 0.25f", "d")),
        (fold("apart(points[i], line[v])"), APART.replace("  return", "  if (d > 0) return 1.0f;\n  return")),
        (fold("apart(points[i], line[v])"), APART.replace("sqrtf", "sqrt")),
        # no loop
        ("  float least = INFINITY;\n  least = fminf(least, sqrtf(points[i] * points[i]));", ""),
    ],
)
def test_what_would_change_is_left(body: str, helpers: str) -> None:
    result, _ = rewritten(SLUG, kernel(body, helpers))
    assert result.refused
