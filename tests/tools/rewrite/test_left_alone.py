# SPDX-License-Identifier: Apache-2.0
"""Kernels near to what rewrites take that would come to something else: they are left."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

LOOPS = """
__global__ void k(const float* in, const float* w, float* out, int n, int m) {
  int t = threadIdx.x;
  const float* row = in + blockIdx.x * m;
  float all = 0.0f;
  for (int q = 0; q < 4; ++q) {
    /*before*/
    float sum = 0.0f;
    for (int i = 0; i < m; ++i) sum += row[i] * row[i];
    all += sum * q;
    /*behind*/
  }
  out[blockIdx.x * blockDim.x + t] = w[t] / (1 + all);
}
void run(const float* in, const float* w, float* out, int n, int m, int t) { k<<<n, 128>>>(in, w, out, n, m); }
"""


@pytest.mark.parametrize("mark", ["/*before*/", "/*behind*/"])
@pytest.mark.parametrize(
    "jump", ["if (w[t] > q) break;", "if (t == q) return;", "if (t < 9) { if (n > 3) break; }"]
)
def test_loops_that_single_threads_leave_are_not_shared(mark: str, jump: str) -> None:
    assert rewritten("share-uniform-loops", LOOPS)[0].edits
    assert rewritten("share-uniform-loops", LOOPS.replace(mark, "if (n > 3) break;"))[0].edits
    assert rewritten("share-uniform-loops", LOOPS.replace(mark, jump))[0].refused


def test_a_round_that_single_threads_skip_is_not_shared() -> None:
    skipped = LOOPS.replace("/*before*/", "if (t % 3 == q) continue;")
    assert rewritten("share-uniform-loops", skipped)[0].refused


@pytest.mark.parametrize("size", ["t", "40"])
def test_blocks_that_are_not_known_to_be_whole_warps_share_no_loop(size: str) -> None:
    assert rewritten("share-uniform-loops", LOOPS.replace("<<<n, 128>>>", f"<<<n, {size}>>>"))[0].refused
    twice = LOOPS.replace("k<<<n, 128>>>", f"k<<<n, {size}>>>(in, w, out, n, m); k<<<n, 128>>>")
    assert rewritten("share-uniform-loops", twice)[0].refused


SCAN = """
__global__ void scan(const int* in, int* out) {
  __shared__ int sums[256];
  int tid = threadIdx.x;
  int i = blockIdx.x * 256 + tid;
  sums[tid] = in[i];
  __syncthreads();
  int s = 0;
  for (int d = 1; d < 256; d *= 2) {
    s = 0;
    if (tid >= d) s = sums[tid - d];
    __syncthreads();
    sums[tid] += s;
    __syncthreads();
  }
  out[i] = sums[tid];
}
void run(const int* in, int* out, int blocks) { scan<<<blocks, 256>>>(in, out); }
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("out[i] = sums[tid];", "out[i] = sums[tid] + s;"),
        ("sums[tid] = in[i];", "tid = 255 - tid; sums[tid] = in[i];"),
        ("<<<blocks, 256>>>", "<<<blocks, dim3(256, 2)>>>"),
    ],
)
def test_scans_of_other_threads_and_of_what_is_used_again_are_left(old: str, new: str) -> None:
    assert old in SCAN
    assert rewritten("scan-by-shuffle", SCAN)[0].edits
    assert rewritten("scan-by-shuffle", SCAN.replace(old, new))[0].refused


ARRAY = """
__global__ void k(const float* a, const float* b, float* out, int N, int m, int n) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= N) return;
  int len = 3;
  float row[25];
  for (int j = 0; j < 25; j++) row[j] = j;
  for (int i = 1; i <= m; i++) {
    if (i % 2) len++;
    for (int j = 1; j <= n; j++) {
      row[j] = fminf(row[j], row[j - 1]) + a[p * m + i - 1] * b[p * 24 + j - 1];
    }
  }
  out[p] = row[n];
}
void run(const float* a, const float* b, float* out, int N, int m, int n) {
  k<<<(N + 63) / 64, 64>>>(a, b, out, N, m, n);
}
"""
ARRAYS = (
    "int N = atoi(argv[1]), m = atoi(argv[2]), n = atoi(argv[3]);\n"
    "  Device<float> a(N * 40), b(N * 40, 2), c(N, 3); run(a, b, c, N, m, n); c.show();"
)


@pytest.mark.compiler
@pytest.mark.parametrize("bound", ["n", "i", "len"])
def test_what_other_rounds_read_more_of_is_not_kept(bound: str) -> None:
    code = program(ARRAY.replace("j <= n; j++", f"j <= {bound}; j++"), ARRAYS)
    after = holds("array-in-registers", code, (70, 5, 7), (9, 20, 20), (5, 0, 0))
    assert ("bKept" in after) == (bound == "n")


def test_an_element_by_what_its_own_statement_declares_is_left() -> None:
    code = ARRAY.replace("out[p] = row[n];", "int last = n / 2, best = row[last]; out[p] = best;")
    assert rewritten("array-in-registers", code)[0].refused
