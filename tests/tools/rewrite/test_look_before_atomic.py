# SPDX-License-Identifier: Apache-2.0
"""Atomics that may find nothing to do: results stay the same, and what is changed in another way is left alone."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

N = "  int n = atoi(argv[1]);\n"
KEPT = {
    "an edge a thread": (
        """
__global__ void relax(const int* from, const int* to, const int* dist, int* next, int edges) {
  int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e < edges) atomicMin(&next[to[e] & 15], dist[from[e] & 15] + 3);
}
""",
        N
        + "  Device<int> f(n), t(n, 3), d(16, 5), x(16, 9); relax<<<(n + 63) / 64, 64>>>(f, t, d, x, n); x.show();",
        "lower_to(&next[",
    ),
    "a vertex that is marked once": (
        """
__global__ void expand(const int* to, int* level, int* found, int edges, int depth)
{
    for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < edges; e += gridDim.x * blockDim.x) {
        const int v = to[e] & 31;
        if (atomicCAS(level + v, -1, depth) == -1) atomicAdd(found, 1);
    }
}
""",
        N + "  Device<int> t(n, 3), l(32), f(1); cudaMemset(l.data, 0xff, 128); cudaMemset(f.data, 0, 4);\n"
        "  expand<<<4, 64>>>(t, l, f, n, 7); l.show(); f.show();",
        "replace_once(level + v, -1, depth) == -1",
    ),
    "who lowered it": (
        """
__global__ void sssp(const int* to, const int* w, int* dist, int* again, int n) {
  int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= n) return;
  int nd = 100 + (w[e] & 7);
  int old = atomicMin(&dist[to[e] & 15], nd);
  if (nd < old) again[to[e] & 15] = 1;
}
""",
        N
        + "  Device<int> t(n, 3), w(n, 5), d(16), a(16); cudaMemset(d.data, 0x3f, 64); cudaMemset(a.data, 0, 64);\n"
        "  sssp<<<(n + 63) / 64, 64>>>(t, w, d, a, n); d.show(); a.show();",
        "int old = lower_to(",
    ),
    "bits of a filter": (
        """
__global__ void insert(const unsigned* keys, unsigned* bits, int n) {
  int i = threadIdx.x + blockDim.x * blockIdx.x;
  if (i < n) {
    unsigned h = keys[i] * 2654435761u >> 24;
    atomicOr(&bits[h / 32], 1u << (h % 32));
  }
}
""",
        N + "  Device<unsigned> k(n, 3), b(8); cudaMemset(b.data, 0, 32);\n"
        "  insert<<<(n + 63) / 64, 64>>>(k, b, n); b.show();",
        "set_bits(&bits[h / 32]",
    ),
    "a maximum of floats by exchanging": (
        """
__device__ void raise(float* place, float value) {
  int old = *(int*)place, seen;
  do {
    seen = old;
    old = atomicCAS((int*)place, seen, __float_as_int(fmaxf(value, __int_as_float(seen))));
  } while (seen != old);
}
__global__ void highest(const float* v, const int* group, float* best, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) raise(&best[group[i] & 7], v[i]);
}
""",
        N + "  Device<float> v(n), b(8); Device<int> g(n, 3); cudaMemset(b.data, 0, 32);\n"
        "  highest<<<(n + 63) / 64, 64>>>(v, g, b, n); b.show();",
        "raise_to(&best[",
    ),
    "a template over the type of an index": (
        """
template <typename Index>
__global__ void touch(const Index* at, unsigned long long* last, unsigned long long now, Index n) {
  Index i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicMax(&last[at[i] & 7], now + i % 5);
}
""",
        N + "  Device<int> a(n, 3); Device<unsigned long long> l(8); cudaMemset(l.data, 0, 64);\n"
        "  touch<int><<<(n + 63) / 64, 64>>>(a, l, 9ull, n); l.show();",
        "raise_to(&last[",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_results_stay(name: str) -> None:
    kernel, main, written = KEPT[name]
    assert written in holds("look-before-atomic", program(kernel, main), (1,), (1000,))


ALONE = {
    "a lock": "if (i < n) { while (atomicCAS(&m[0], 0, 1) != 0) {} out[i] = i; atomicExch(&m[0], 0); }",
    "a store": "if (i < n) { m[i] = 5; atomicMin(&m[out[i]], i); }",
    "two directions": "if (i < n) { atomicMin(&m[out[i]], i); atomicMax(&m[out[i]], i); }",
    "the old value is kept": "if (i < n) out[i] = atomicMin(&m[i % 7], i);",
    "looked at": "if (i < n && i < m[i % 7]) atomicMin(&m[i % 7], i);",
    "always changes": "if (i < n) atomicAdd(&m[i % 7], i);",
    "values of each thread": "if (i < n) atomicExch(&m[i % 7], i);",
}


@pytest.mark.parametrize("name", ALONE)
def test_left_alone(name: str) -> None:
    text = f"__global__ void k(int* out, int* m, int n) {{\n  int i = threadIdx.x;\n  {ALONE[name]}\n}}\n"
    assert rewritten("look-before-atomic", text)[0].refused
