# SPDX-License-Identifier: Apache-2.0
"""Places that a block takes at once: the same items are kept, each in a place of its own."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SORTED = """
#include <algorithm>
template <typename T> void show_sorted(const T* from, int count) {
  std::vector<T> host(count);
  cudaMemcpy(host.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost);
  std::sort(host.begin(), host.end());
  printf("%d\\n", count);
  for (T one : host) printf("%g\\n", (double)one);
}
template <typename T> int number(const T* from) {
  T host;
  cudaMemcpy(&host, from, sizeof(T), cudaMemcpyDeviceToHost);
  return (int)host;
}
"""
N = "  int n = atoi(argv[1]);\n"
KEPT = {
    "early returns, the index itself": (
        """
__global__ void find(const float* x, int* where, unsigned int* hits, int n, float limit) {
  const int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  const float v = x[i], doubled = v * 2.0f;
  if (!(doubled > limit)) return;
  where[atomicAdd(hits, 1u)] = i;
}
""",
        "  Device<float> x(n); Device<int> w(n); Device<unsigned> h(1); cudaMemset(h.data, 0, 4);\n"
        "  find<<<(n + 95) / 96, 96>>>(x, w, h, n, 1.0f); show_sorted(w.data, number(h.data));",
    ),
    "some places a thread, a plane, a bound": (
        """
template <typename T>
__global__ void corners(const T* image, T* found, int* count, int width, int height, int most) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) {
    T here = image[y * width + x];
    T right = image[y * width + (x + 1) % width];
    if (here > right) {
      int first;
      first = atomicAdd(count, 2);
      if (first + 1 < most) {
        found[first] = here;
        found[first + 1] = right;
      }
    } else if (here < right) {
      found[most] = 1;
    }
  }
}
""",
        "  int w = n % 37 + 3, h = n / 37 + 1; Device<float> x(w * h), f(2 * w * h + 1); Device<int> c(1);\n"
        "  cudaMemset(c.data, 0, 4); cudaMemset(f.data, 0, f.count * 4); dim3 block(16, 4);\n"
        "  corners<float><<<dim3((w + 15) / 16, (h + 3) / 4), block>>>(x, f, c, w, h, 2 * w * h);\n"
        "  show_sorted(f.data, 2 * w * h + 1); printf(\"%d\\n\", number(c.data));",
    ),
    "a loop over the grid": (
        """
__global__ void pick(const float* in, float* out, int* counter, int n, float limit) {
  int stride = blockDim.x * gridDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    float v = in[i];
    if (v <= limit) continue;
    float twice = 2 * v;
    int at = atomicAdd(counter, 1);
    out[at] = twice + i;
  }
}
""",
        "  Device<float> x(n), f(n); Device<int> c(1); cudaMemset(c.data, 0, 4);\n"
        "  pick<<<3, 32>>>(x, f, c, n, 0.5f); show_sorted(f.data, number(c.data));",
    ),
    "records, a counter of 64 bits": (
        """
struct Edge { int from, to; };
__global__ void push(const Edge* edges, const int* seen, int* next, unsigned long long* size, size_t n) {
  size_t e = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (e < n) {
    Edge one = edges[e];
    int to = one.to;
    if (seen[to] == 0) {
      unsigned long long slot = atomicAdd(size, 1ull);
      next[slot] = to + one.from;
    }
  }
}
""",
        "  std::vector<Edge> host(n); for (int i = 0; i < n; ++i) host[i] = {i, (i * 7) % n};\n"
        "  Edge* edges; cudaMalloc((void**)&edges, n * sizeof(Edge));\n"
        "  cudaMemcpy(edges, host.data(), n * sizeof(Edge), cudaMemcpyHostToDevice);\n"
        "  std::vector<int> marks(n); for (int i = 0; i < n; ++i) marks[i] = i % 3;\n"
        "  Device<int> seen(n), next(n); Device<unsigned long long> size(1); cudaMemset(size.data, 0, 8);\n"
        "  cudaMemcpy(seen.data, marks.data(), n * 4, cudaMemcpyHostToDevice);\n"
        "  push<<<(n + 63) / 64, 64>>>(edges, seen, next, size, n); show_sorted(next.data, number(size.data));",
    ),
}  # fmt: skip
HEAD = "__global__ void k(const float* x, float* out, int* count, int n) {\n  int i = threadIdx.x;\n"
RUN = "void run(const float* x, float* out, int* count, int n) { k<<<1, 256>>>(x, out, count, n); }\n"
ALONE = {
    "a loop": ("for (; i < n; i += 256) { int at = atomicAdd(count, 1); out[at] = x[i]; }", "in a loop"),
    "no place": ("if (i < n) atomicAdd(count, 1);", "gives out places"),
    "behind it": ("if (i < n) { int at = atomicAdd(count, 1); out[at] = x[i]; }\n  out[n] = 0;", "behind"),
    "by thread": ("if (i < n) { int at = atomicAdd(&count[i], 1); out[at] = x[i]; }", "one place"),
    "read": ("if (count[0] < n) { int at = atomicAdd(count, 1); out[at] = x[i]; }", "otherwise"),
    "auto": ("if (i < n) { auto v = __ldg(x + i); int at = atomicAdd(count, 1); out[at] = v; }", "declared"),
    "barrier": ("__syncthreads(); int at = atomicAdd(count, 1); out[at] = x[i];", "together"),
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.sampled(2)
def test_a_block_takes_its_places_at_once(name: str) -> None:
    code, main = KEPT[name]
    after = holds("places-for-block", program(SORTED + code, N + main), (1,), (500,), (1027,))
    assert after.count("atomicAdd(&blockCount") == 1


@pytest.mark.parametrize("name", ALONE)
def test_what_is_no_place_of_a_block_is_left_alone(name: str) -> None:
    body, why = ALONE[name]
    result, _ = rewritten("places-for-block", f"{HEAD}  {body}\n}}\n{RUN}")
    assert not result.edits
    assert why in result.refused


def test_an_atomic_is_not_moved_out_of_its_branch() -> None:
    code, main = KEPT["early returns, the index itself"]
    counted = code.replace("where[atomicAdd(hits, 1u)] = i;", "int at = atomicAdd(hits, 1u); where[at] = i;")
    counted = counted.replace("!(doubled > limit)", "doubled <= limit")
    holds("widen-access", program(SORTED + counted, N + main), (1027,))
