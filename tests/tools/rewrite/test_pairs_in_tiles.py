# SPDX-License-Identifier: Apache-2.0
"""Items compared with all others, several pairs at a time: the same result to the last bit, in the same order."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

NEAREST = """
__global__ void nearest(const float* points, const float* centers, int* labels, float* best_of, int n, int k, int dim) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float best = 3.0e38f;
  int label = -1;
  for (int c = 0; c < k; ++c) {
    float dist = 0.0f;
    for (int f = 0; f < dim; ++f) {
      float diff = points[i * dim + f] - centers[c * dim + f];
      dist += diff * diff;
    }
    if (dist < best) {
      best = dist;
      label = c;
    }
  }
  labels[i] = label;
  best_of[i] = best;
}
"""
MAIN = """
  int n = atoi(argv[1]), k = atoi(argv[2]), dim = atoi(argv[3]);
  Device<float> p(n * dim), c(k * dim, 2), b(n, 3); Device<int> l(n, 4);
  nearest<<<(n + 63) / 64, 64>>>(p, c, l, b, n, k, dim); l.show(); b.show();
"""
PROGRAMS = {
    "nearest centre": (NEAREST, MAIN),
    "rows by pointers, a while, doubles": (
        """
template <typename T>
__global__ void scores(const T* __restrict__ q, const T* __restrict__ keys, T* out, T* top, int rows, int cols, int d) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {
    const T* mine = q + (size_t)r * d;
    T most = -1000;
    int j = 0;
    while (j < cols) {
      const T* key = keys + (size_t)j * d;
      T dot = T(0);
      for (int e = 0; e < d; e++) dot += mine[e] * key[e];
      out[r * cols + j] = dot;
      most = max(most, dot);
      j++;
    }
    top[r] = most;
  }
}
""",
        """
  int n = atoi(argv[1]), k = atoi(argv[2]), dim = atoi(argv[3]);
  Device<double> q(n * dim), c(k * dim, 2), out(n * k, 3), top(n, 4);
  dim3 block(64), grid((n + 63) / 64);
  scores<double><<<grid, block>>>(q, c, out, top, n, k, dim); out.show(); top.show();
""",
    ),
    "sizes that the file fixes": (
        """
#define K 12
#define D 5
__global__ void assign(const float* pts, const float* ctr, int* out, int n) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx < n) {
    int bi = 0;
    float bd = 1e30f;
    for (int k = 0; k < K; k++) {
      float d = 0;
      for (int j = 0; j < D; j++) d += fabsf(pts[idx * D + j] - ctr[k * D + j]);
      if (d >= bd) continue;
      bd = d; bi = k;
    }
    out[idx] = bi;
  }
}
""",
        """
  int n = atoi(argv[1]); (void)atoi(argv[2]);
  Device<float> p(n * D), c(K * D, 2); Device<int> o(n, 3);
  assign<<<(n + 255) / 256, 256>>>(p, c, o, n); o.show();
""",
    ),
    "a row that is stored and walked again": (
        """
__global__ void weights(const float* q, const float* k, float* s_all, float* out, int n, int m, int d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float* mine = q + i * d;
  float* s = s_all + i * m;
  float top = -1e30f;
  for (int j = 0; j < m; ++j) {
    float dot = 0.0f;
    for (int c = 0; c < d; ++c) dot += mine[c] * k[j * d + c];
    s[j] = dot * 0.01f;
    top = fmaxf(top, s[j]);
  }
  float sum = 0.0f;
  for (int j = 0; j < m; ++j) sum += expf(s[j] - top);
  out[i] = sum;
}
""",
        """
  int n = atoi(argv[1]), m = atoi(argv[2]), d = atoi(argv[3]);
  Device<float> q(n * d), k(m * d, 2), s(n * m, 3), o(n, 4);
  weights<<<(n + 63) / 64, 64>>>(q, k, s, o, n, m, d); o.show(); s.show();
""",
    ),
    "one head of many": (
        """
__global__ void energy(const float* a, const float* w, float* out, int n, int m, int d) {
  int i = threadIdx.x + blockIdx.x * blockDim.x, head = blockIdx.y;
  if (i >= n) return;
  float sum = 0.0f;
  for (int j = 0; j < m; ++j) {
    float s = w[head];
    for (int c = 0; c < d; ++c) s += a[(head * n + i) * d + c] * w[(head * m + j) * d + c];
    sum += expf(-s * s * 0.001f);
  }
  out[head * n + i] = sum;
}
""",
        """
  int n = atoi(argv[1]), m = atoi(argv[2]), d = atoi(argv[3]);
  Device<float> a(2 * n * d), w(2 * m * d, 2), o(2 * n, 3);
  energy<<<dim3((n + 31) / 32, 2), 32>>>(a, w, o, n, m, d); o.show();
""",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled(2)
def test_pairs_are_compared_from_tiles(name: str) -> None:
    after = holds("pairs-in-tiles", program(*PROGRAMS[name]), (150, 37, 19), (5, 3, 40), relative=1e-6)
    assert "__shared__" in after and rewritten("pairs-in-tiles", after)[0].refused


@pytest.mark.parametrize(
    "change",
    [
        ("    if (dist < best) {", "    if (dist == 0) break;\n    if (dist < best) {"),
        ("    float dist = 0.0f;", "    if (c == label) continue;\n    float dist = 0.0f;"),
        ("centers[c * dim + f]", "points[c * dim + f + i]"),
        ("      dist +=", "      labels[i] = f;\n      dist +="),
        ("f < dim", "f < c"),
        ("c < k;", "c < i;"),
        ("float best = 3.0e38f", "float best = points[i]"),
        ("  labels[i] = label;", "  if (label < 0) return;\n  labels[i] = label;"),
    ],
)
def test_other_loops_stay(change: tuple[str, str]) -> None:
    assert change[0] in NEAREST
    assert rewritten("pairs-in-tiles", program(NEAREST.replace(*change), MAIN))[0].refused
