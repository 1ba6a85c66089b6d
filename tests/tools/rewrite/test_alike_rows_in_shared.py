# SPDX-License-Identifier: Apache-2.0
"""Rows that all threads of a block walk alike come from shared memory, and threads without an output help."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

ATTEND = """
template <int D>
__global__ void attend(const float* Q, const float* K, const float* V, float* O, int n, float scale) {
  int q = blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= n || scale == 0.0f) return;
  int h = blockIdx.y;
  Q += h * n * D; K += h * n * D;
  float qr[D], acc[D];
  const float first = Q[q * D];
  for (int d = 0; d < D; d++) { qr[d] = Q[q * D + d]; acc[d] = 0.0f; }
  float m = -1e30f, l = first * 0.0f;
  for (int k = 0; k < n; k++) {
    float s = 0.0f;
    #pragma unroll
    for (int d = 0; d < D; d++) s += qr[d] * K[k * D + d];
    if (s < -90.0f) continue;
    float mn = fmaxf(m, s * scale);
    float corr = expf(m - mn), p = expf(s * scale - mn);
    l = l * corr + p;
    for (int d = 0; d < D; d++) acc[d] = acc[d] * corr + p * V[(size_t)h * n * D + k * D + d];
    m = mn;
  }
  #pragma unroll
  for (int d = 0; d < D; d++) O[(h * n + q) * D + d] = acc[d] / l;
}
"""
ATTEND_MAIN = """
  int n = atoi(argv[1]);
  Device<float> q(2 * n * 16), k(2 * n * 16, 3), v(2 * n * 16, 5), o(2 * n * 16, 7);
  attend<16><<<dim3((n + 63) / 64, 2), 64>>>(q, k, v, o, n, 0.25f); o.show();
"""
NEAREST = """
__global__ void nearest(const float* pts, const float3* sites, int* label, int w, int h, int k) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < w && y < h) {
    float p = pts[y * w + x];
    int best = -1; float least = 1e30f;
    for (int c = 0; c < k; ++c) {
      float dx = x - sites[c].x, dy = y - sites[c].y, d = dx * dx + dy * dy + fabsf(sites[c].z - p);
      if (d < least) { least = d; best = c; }
    }
    label[y * w + x] = best;
  }
}
"""
NEAREST_MAIN = """
  int w = atoi(argv[1]), h = atoi(argv[2]), k = 70;
  Device<float> p(w * h), s(3 * k, 3); Device<int> l(w * h);
  nearest<<<dim3((w + 15) / 16, (h + 7) / 8), dim3(16, 8)>>>(p, (const float3*)(float*)s, l, w, h, k); l.show();
"""


@pytest.mark.compiler
def test_keys_and_values_are_held_by_the_block() -> None:
    after = holds("alike-rows-in-shared", program(ATTEND, ATTEND_MAIN), (70,), (33,), (128,), relative=1e-5)
    assert "const bool active = q < n && scale != 0.0f;" in after
    assert "V[(size_t)h * n * D + k0 * D + t]" in after and "if (active) first = " in after


@pytest.mark.compiler
def test_outputs_in_a_plane_share_structures() -> None:
    after = holds("alike-rows-in-shared", program(NEAREST, NEAREST_MAIN), (50, 33), (16, 8))
    assert "float3 heldSites[" in after and "threadIdx.y * blockDim.x + threadIdx.x" in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if (s < -90.0f) continue;", "if (s < -90.0f) break;"),
        ("for (int k = 0; k < n; k++)", "for (int k = 0; k <= q; k++)"),
        ("for (int k = 0; k < n; k++)", "for (int k = 0; k < 8; k++)"),
        ("float m =", "__syncthreads(); float m ="),
        ("s += qr[d] * K[k * D + d]", "s += qr[d] * K[k * D + d + q]"),
        ("s += qr[d] * K[k * D + d]", "{ int to = (int)qr[d]; s += K[k * D + to * n]; }"),
    ],
)
def test_other_loops_are_left_alone(old: str, new: str) -> None:
    text = ATTEND.replace("V[(size_t)h * n * D + k * D + d]", "0.5f").replace(old, new)
    assert rewritten("alike-rows-in-shared", program(text, ATTEND_MAIN))[0].refused


def test_what_the_kernel_writes_stays_where_it_is() -> None:
    text = ATTEND.replace("const float* V", "float* V").replace("m = mn;", "m = mn; V[q] = m;")
    after = rewritten("alike-rows-in-shared", program(text, ATTEND_MAIN))[1]
    assert "heldSliceK" in after and "heldV" not in after
