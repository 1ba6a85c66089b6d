# SPDX-License-Identifier: Apache-2.0
"""Costly values that an axis of the grid does not change are worked out once for several of its elements."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

NESTED = """
__global__ void rope(float* q, const int* pos, int tokens, int heads, int dim, float base) {
  int token = blockIdx.x, head = blockIdx.y;
  float* mine = q + (token * heads + head) * dim;
  for (int i = threadIdx.x; i < dim / 2; i += blockDim.x) {
    float freq = powf(base, -2.0f * i / dim);
    float angle = pos[token] * freq;
    float c = cosf(angle), s = sinf(angle);
    float x0 = mine[i], x1 = mine[i + dim / 2];
    mine[i] = x0 * c - x1 * s;
    mine[i + dim / 2] = x0 * s + x1 * c;
  }
}
"""
NESTED_MAIN = """
  int t = atoi(argv[1]), h = atoi(argv[2]), d = 12; Device<float> q(t * h * d); Device<int> p(t, 2);
  rope<<<dim3(t, h), 32>>>(q, p, t, h, d, 100.f); q.show();
"""
FLAT = """
__global__ void rope(float* q, int seq, int heads, int dim) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  int half_dim = dim / 2;
  if (idx >= seq * heads * half_dim) return;
  int i = idx % half_dim;
  int h = (idx / half_dim) % heads;
  int s = idx / (half_dim * heads);
  float freq = 1.0f / powf(10000.0f, 2.0f * i / dim);
  float c = cosf(s * freq), sn = sinf(s * freq);
  float* p = q + (s * heads + h) * dim;
  float a = p[2 * i], b = p[2 * i + 1];
  p[2 * i] = a * c - b * sn;
  p[2 * i + 1] = a * sn + b * c;
}
"""
FLAT_MAIN = """
  int s = atoi(argv[1]), h = atoi(argv[2]), d = 12; Device<float> a(s * h * d);
  rope<<<(s * h * d / 2 + 255) / 256, 256>>>(a, s, h, d); a.show();
"""
ADDED = """
__global__ void add_positions(const float* x, float* y, int batch, int length, int width) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  int t = blockIdx.y;
  int b = blockIdx.z * blockDim.z + threadIdx.z;
  if (c >= width || b >= batch) return;
  float angle = t / powf(1000.0f, (float)(c / 2 * 2) / width);
  float code = c % 2 == 0 ? sinf(angle) : cosf(angle);
  int at = (b * length + t) * width + c;
  if (x[at] > 0) {
    y[at] = x[at] + code;
  } else {
    y[at] = code;
  }
}
"""
ADDED_MAIN = """
  int n = atoi(argv[1]), t = atoi(argv[2]), w = 9; Device<float> x(n * t * w), y(n * t * w, 2);
  add_positions<<<dim3((w + 3) / 4, t, (n + 1) / 2), dim3(4, 1, 2)>>>(x, y, n, t, w); y.show();
"""
PROGRAMS = {"nested": (NESTED, NESTED_MAIN), "flat": (FLAT, FLAT_MAIN), "added": (ADDED, ADDED_MAIN)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_axis_is_walked(name: str) -> None:
    after = holds("work-out-once", program(*PROGRAMS[name]), (5, 3), (20, 33), (1, 1), relative=1e-6)
    assert "kItemsPerThread" in after
    assert rewritten("work-out-once", after)[0].refused


LEFT = {
    "every axis counts": (NESTED.replace("powf(base,", "powf(base + head,"), NESTED_MAIN),
    "the grid's length is another's": (NESTED, NESTED_MAIN.replace("dim3(t, h)", "dim3(t, h + 0)")),
    "a sum over the axis": (
        NESTED.replace("for (int i", "float sum = 0;\n  for (int i").replace(
            "mine[i] = x0", "sum += x1; mine[i] = sum + x0"
        ),
        NESTED_MAIN,
    ),
    "an end": (NESTED.replace("mine[i] = x0", "if (x0 > 2) break; mine[i] = x0"), NESTED_MAIN),
    "a condition on the axis": (
        NESTED.replace("for (int i", "if (head > 1) return;\n  for (int i"),
        NESTED_MAIN,
    ),
    "nothing costly": (NESTED.replace("powf", "f").replace("cosf", "f").replace("sinf", "f"), NESTED_MAIN),
    "threads that wait": (NESTED.replace("float freq", "__syncthreads(); float freq"), NESTED_MAIN),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_alone(name: str) -> None:
    result, after = rewritten("work-out-once", program(*LEFT[name]))
    assert not result.edits, after
