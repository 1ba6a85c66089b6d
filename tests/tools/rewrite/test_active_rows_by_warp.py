# SPDX-License-Identifier: Apache-2.0
"""Rows that only some threads have, taken by the lanes of their warp together."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

LEVEL = """
__global__ void level(const int* offsets, const int* edges, int* distance, int now, int n, int* changed) {
  int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= n) return;
  int mine = distance[v];
  if (mine != now) return;
  for (int e = offsets[v]; e < offsets[v + 1]; ++e) {
    int to = edges[e];
    if (distance[to] == -1) {
      distance[to] = now + 1;
      *changed = 1;
    }
  }
}
"""
PUSHED = """
__global__ void push(const int* offsets, const int* edges, const int* active, int* sums, int now, int n, int* seen) {
  const long long v = threadIdx.x + (long long)blockIdx.x * blockDim.x;
  if (v < n) {
    seen[v] = now;
    int degree = offsets[v + 1] - offsets[v];
    if (active[v] > 0 && degree > 0) {
      int share = 840 / degree, first = offsets[v];
      for (long long e = 0; e <= degree - 1; e++) {
        int to = edges[first + e];
        for (int k = 0; k < 2; ++k) {
          if (to != v) atomicAdd(&sums[to], share + k);
        }
      }
    }
  }
}
"""
GRAPH = """  int n = atoi(argv[1]), per = atoi(argv[2]); static int o[2000], e[40000], d[2000]; int m = 0;
  for (int v = 0; v < n; ++v) { o[v] = m; for (int k = 0; k < v * 7 % per; ++k) e[m++] = (v * 31 + k * k * 17) % n; }
  o[n] = m; for (int v = 0; v < n; ++v) d[v] = v % 5 ? -1 : 0;
  int *po, *pe, *pd; cudaMalloc((void**)&po, sizeof(o)); cudaMalloc((void**)&pe, sizeof(e));
  cudaMalloc((void**)&pd, sizeof(d)); cudaMemcpy(po, o, sizeof(o), cudaMemcpyHostToDevice);
  cudaMemcpy(pe, e, sizeof(e), cudaMemcpyHostToDevice); cudaMemcpy(pd, d, sizeof(d), cudaMemcpyHostToDevice);
  Device<int> a(n), b(n, 2);
"""
SHOWN = '  cudaMemcpy(d, pd, sizeof(d), cudaMemcpyDeviceToHost); for (int v = 0; v < n; ++v) printf("%d\\n", d[v]);'
PROGRAMS = {
    "a level of a search": (LEVEL, f"{GRAPH} level<<<(n + 63) / 64, 64>>>(po, pe, pd, 0, n, a);\n{SHOWN}"),
    "what the row's own lane knows": (
        PUSHED,
        f"{GRAPH} push<<<(n + 63) / 64, 64>>>(po, pe, b, a, 3, n, pd);\n{SHOWN} a.show();",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_warp_takes_its_rows_one_after_another(name: str) -> None:
    after = holds("active-rows-by-warp", program(*PROGRAMS[name]), (200, 90), (33, 5), (1, 2))
    assert "__ballot_sync" in after
    assert rewritten("active-rows-by-warp", after)[0].refused


CHANGES = {
    "rows of one length": ("e = offsets[v]; e < offsets[v + 1]", "e = 0; e < n"),
    "a sum": ("*changed = 1;", "now += to;"),
    "work behind it": (
        "++e) {",
        "++e) { int to = edges[e]; distance[to] = now; }\n  for (int e = 0; e < 1; ++e) {",
    ),
    "a loop that is left": ("*changed = 1;", "break;"),
    "rows that are written": ("int* offsets", "int* unused, int* offsets"),
    "other axes": ("if (v >= n)", "if (v >= n || threadIdx.y)"),
    "an end with more to do": ("if (v >= n) return;", "if (v >= n) { *changed = 0; return; }"),
    "neighbours' values": ("*changed = 1;", "*changed = __shfl_sync(~0u, now, 0);"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_kernels_are_left_alone(name: str) -> None:
    old, new = CHANGES[name]
    code = LEVEL.replace(old, new)
    if name == "rows of one length":
        code = code.replace("if (mine != now) return;", "")
    if name == "rows that are written":
        code = code.replace("*changed = 1", "offsets[to] = 1")
    assert (
        old in LEVEL
        and rewritten("active-rows-by-warp", program(code, PROGRAMS["a level of a search"][1]))[0].refused
    )


def test_blocks_are_whole_warps() -> None:
    code, main = PROGRAMS["a level of a search"]
    assert rewritten("active-rows-by-warp", program(code, main.replace("64>>>", "40>>>")))[0].refused


PUSH = """
__global__ void push(const int* offsets, const int* edges, const int* frontier, int size, int* level, int* next,
                     int* count, int depth) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= size) return;
  int u = frontier[t];
  for (int e = offsets[u]; e < offsets[u + 1]; e++) {
    int v = edges[e];
    if (atomicCAS(&level[v], -1, depth) == -1) {
      int at = atomicAdd(count, 1);
      next[at] = v;
    }
  }
}
"""
PUSH_MAIN = """
  int n = atoi(argv[1]);
  std::vector<int> o(n + 1), e, f, l(n, -1);
  for (int i = 0; i < n; i++) {
    o[i + 1] = o[i] + i % 40;
    for (int j = 0; j < i % 40; j++) e.push_back((i * 13 + j * 7) % n);
    if (i % 3 == 0) { f.push_back(i); l[i] = 0; }
  }
  Device<int> off(n + 1), ed(e.size() + 1), fr(f.size()), lev(n), next(n), count(1);
  cudaMemcpy(off, o.data(), o.size() * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(ed, e.data(), e.size() * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(fr, f.data(), f.size() * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(lev, l.data(), n * 4, cudaMemcpyHostToDevice);
  cudaMemset(count, 0, 4);
  int size = (int)f.size();
  push<<<(size + 127) / 128, 128>>>(off, ed, fr, size, lev, next, count, 1);
  lev.show(); count.show();
"""


@pytest.mark.compiler
@pytest.mark.parametrize("slug", ["active-rows-by-warp", "warp-per-row"])
def test_places_that_an_atomic_counts_up_are_each_iterations_own(slug: str) -> None:
    holds(slug, program(PUSH, PUSH_MAIN), (200,), (70,))


@pytest.mark.parametrize("place", ["atomicAdd(count, 0)", "atomicAdd(count, depth)", "*count"])
def test_other_places_may_be_several_iterations(place: str) -> None:
    text = program(PUSH.replace("atomicAdd(count, 1)", place), PUSH_MAIN)
    assert rewritten("active-rows-by-warp", text)[0].refused
