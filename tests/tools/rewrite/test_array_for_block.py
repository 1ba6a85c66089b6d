# SPDX-License-Identifier: Apache-2.0
"""Arrays of the threads' own that a block works on together: bit for bit the same results."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SLUG = "array-for-block"
KEPT = {
    "an American put, in braces": (
        """
constexpr int kSteps = 150;
template <typename T>
__global__ void american(const T* spot, T* price, T up, T p, T strike, int n)
{
    int id = threadIdx.x + blockIdx.x * blockDim.x;
    if (id < n) {
        T prices[kSteps + 1];
        T held[kSteps + 1];
        for (int i = 0; i <= kSteps; i++) {
            prices[i] = spot[id] + up * (2 * i - kSteps);
            held[i] = strike > prices[i] ? strike - prices[i] : 0;
        }
        for (int t = kSteps; t > 0; t--) {
            T shrunk = up * 0.5f;
            for (int i = 0; i < t; i++) {
                T kept = p * held[i + 1] + (1 - p) * held[i], now = strike - prices[i] + shrunk;
                held[i] = kept > now ? kept : now;
            }
        }
        price[id] = held[0];
    }
}
""",
        "  Device<float> s(n), o(n, 2); american<float><<<(n + 63) / 64, 64>>>(s, o, 0.25f, 0.5f, 3.0f, n); o.show();",
        2,
    ),
    "two arrays that change places, a border": (
        """
#define CELLS 100
__global__ void decay(const float* rate, float* left, int n, int steps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float now[CELLS], next[CELLS];
  for (int k = 0; k < CELLS; k++) now[k] = rate[i] * k;
  for (int s = 0; s < steps; s++) {
    for (int k = 1; k < CELLS - 1; k++) next[k] = 0.5f * (now[k - 1] + now[k + 1]);
    next[0] = now[1];
    next[CELLS - 1] = 0.0f;
    float most = next[CELLS / 3];
    for (int k = 0; k < CELLS; k++) now[k] = next[k] - 0.25f * most;
    left[i] = now[1];
  }
  left[i] += now[CELLS / 2];
}
""",
        "  Device<float> r(n), l(n, 2); int steps = 7; decay<<<(n + 127) / 128, 128>>>(r, l, n, steps); l.show();",
        3,
    ),
    "downwards": (
        """
__global__ void ways(const int* weight, int* count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int sums[200];
  for (int w = 0; w < 200; ++w) sums[w] = w == 0 ? 1 : 0;
  for (int c = 1; c < 9; ++c) {
    int value = weight[i] + c;
    for (int w = 199; w >= 3; --w) sums[w] += sums[w - 3] * value;
  }
  for (int w = 0; w < 200; ++w) count[i * 200 + w] = sums[w];
}
""",
        "  Device<int> w(n), c(200 * n, 2); ways<<<(n + 95) / 96, 96>>>(w, c, n); c.show();",
        3,
    ),
}
HEAD = (
    "__global__ void k(const float* x, float* out, int n) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i >= n) return;\n"
)
RUN = "void run(const float* x, float* out, int n) { k<<<(n + 127) / 128, 128>>>(x, out, n); }\n"
ALONE = {
    "one after the other": (
        "float v[99]; v[0] = x[i]; for (int j = 1; j < 99; j++) v[j] = v[j - 1] * 2; out[i] = v[98];",
        "before",
    ),
    "a sum besides": (
        "float v[99], s = 0.0f; for (int j = 0; j < 99; j++) { v[j] = x[j]; s += v[j]; } out[i] = s;",
        "plainly",
    ),
    "a sum": (
        "float v[99]; float s = 0; for (int j = 0; j < 99; j++) { v[j] = x[j]; s += v[j]; } out[i] = s;",
        "besides",
    ),
    "few": ("float v[9]; for (int j = 0; j < 9; j++) v[j] = x[j]; out[i] = v[i % 9];", "small"),
    "many": ("float v[19999]; for (int j = 0; j < 19999; j++) v[j] = x[j]; out[i] = v[0];", "fit"),
    "others' elements": (
        "int v[99]; for (int j = 0; j < 99; j++) v[(int)x[j]] = j; out[i] = v[0];",
        "another element",
    ),
    "left early": (
        "float v[99]; for (int j = 0; j < 99; j++) { if (x[j] > n) break; v[j] = x[j]; } out[i] = v[0];",
        "early",
    ),
    "by an element": (
        "float v[99]; for (int j = 0; j < 99; j++) v[j] = x[j]; if (v[3] > 0) return; out[i] = v[0];",
        "leave",
    ),
    "as long as an element": (
        "float v[99]; for (int s = 0; s < v[0]; s++) for (int j = 0; j < 99; j++) v[j] = x[j] + s; out[i] = v[0];",
        "how long",
    ),
    "read again": (
        "float v[99]; for (int j = 0; j < 99; j++) v[j] = x[j]; out[i] = v[0]; out[i + n] = v[1] * 2; "
        "float s = out[i];",
        "read again",
    ),
    "by place": ("float v[99]; for (int j = threadIdx.x; j < 99; j++) v[j] = x[j]; out[i] = v[0];", "apart"),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_block_works_on_one_array(name: str) -> None:
    code, main, loops = KEPT[name]
    text = program(code, "  int n = atoi(argv[1]);\n" + main)
    after = holds(SLUG, text, (1,), (5,))
    assert after.count("= blockDim.x") == loops
    assert "__shared__" in after


@pytest.mark.parametrize("name", ALONE)
def test_what_a_block_cannot_share_is_left_alone(name: str) -> None:
    body, why = ALONE[name]
    result, _ = rewritten(SLUG, f"{HEAD}  {body}\n}}\n{RUN}")
    assert not result.edits
    assert why in result.refused
