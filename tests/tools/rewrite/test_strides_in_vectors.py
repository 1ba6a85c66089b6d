# SPDX-License-Identifier: Apache-2.0
"""Columns that the threads of a row's block stride over, walked side by side in vectors."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SIZES = "  int rows = atoi(argv[1]), dim = atoi(argv[2]), o = atoi(argv[3]), block = atoi(argv[4]); (void)block;\n"
BAGS = """
__global__ void bags(const __half* table, const int* ids, const int* ends, const float* weights, float* out, int dim) {
  int bag = blockIdx.x;
  int begin = ends[bag], end = ends[bag + 1];
  for (int d = threadIdx.x; d < dim; d += blockDim.x) {
    float sum = 0.0f;
    for (int i = begin; i < end; i++) {
      sum += weights[i] * __half2float(table[(size_t)ids[i] * dim + d]);
    }
    out[(size_t)bag * dim + d] = sum;
  }
}
"""
FILL = (
    "  Device<int> ids(rows * 5), ends(rows + 1); std::vector<int> h(rows * 5), e(rows + 1);\n"
    "  for (int i = 0; i < rows * 5; i++) h[i] = i * 7 % rows;\n"
    "  for (int i = 0; i < rows; i++) e[i + 1] = e[i] + i % 6;\n"
    "  cudaMemcpy(ids, h.data(), rows * 5 * sizeof(int), cudaMemcpyHostToDevice);\n"
    "  cudaMemcpy(ends, e.data(), (rows + 1) * sizeof(int), cudaMemcpyHostToDevice);\n"
)
RUN = (
    SIZES
    + FILL
    + (
        "  Device<__half> t(rows * dim + 8); Device<float> w(rows * 5, 2), out(rows * dim, 3);\n"
        "  bags<<<rows, block>>>(t + o, ids, ends, w, out, dim); out.show();"
    )
)
GUARDED = """
#define THREADS 96
__global__ void means(const float* x, float* out, int rows, int steps, int dim) {
  const int row = blockIdx.x;
  if (row < rows) {
    const float share = 1.0f / steps;
    for (int d = threadIdx.x; d < dim; d += THREADS) {
      float sum = 0.0f, most = -1e30f;
      for (int t = 0; t < steps; ++t) {
        const float v = x[(row * steps + t) * dim + d];
        sum += v;
        most = fmaxf(most, v);
      }
      out[row * dim + d] = sum * share + most;
    }
  }
}
"""
GUARDED_RUN = SIZES + (
    "  Device<float> x(rows * 7 * dim + 8), out(rows * dim, 3);\n"
    "  means<<<rows + 2, THREADS>>>(x + o, out, rows, 7, dim); out.show();"
)
PROGRAMS = {"rows that are gathered": (BAGS, RUN), "a condition and a constant step": (GUARDED, GUARDED_RUN)}
#: Whole vectors, rows that begin between two, columns that fill none, and more columns than a block has threads for.
RUNS = ((9, 64, 0, 128), (7, 64, 1, 32), (6, 37, 0, 64), (3, 1000, 0, 300))


@pytest.mark.compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_columns_of_a_block_are_walked_in_vectors(name: str) -> None:
    kernel, main = PROGRAMS[name]
    after = holds("strides-in-vectors", program(kernel, main), *RUNS)
    assert "d0 += kVector * blockDim.x" in after


def test_blocks_keep_a_thread_for_each_vector_and_a_warp_at_least() -> None:
    assert (
        "<<<rows, (block + kVector * 32 - 1) / (kVector * 32) * 32>>>"
        in rewritten("strides-in-vectors", program(BAGS, RUN))[1]
    )
    assert "<<<rows + 2, 32>>>" in rewritten("strides-in-vectors", program(GUARDED, GUARDED_RUN))[1]


REFUSED = {
    "rows along the threads": BAGS.replace("* dim + d]);", "+ d * dim]);"),
    "the thread's number inside": BAGS.replace("sum = 0.0f", "sum = threadIdx.x"),
    "a walk that is as long as the column says": BAGS.replace("i < end;", "i < end - d;"),
    "a walk that is left early": BAGS.replace("    }\n    out", "      if (sum > 9) break;\n    }\n    out"),
    "a sum over columns": BAGS.replace("  for (int d", "  float all = 0;\n  for (int d").replace(
        "    out", "    all += sum;\n    out"
    ),
    "a block that works together": BAGS.replace("  for (int d", "  __syncthreads();\n  for (int d"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_strides_are_left_alone(name: str) -> None:
    assert rewritten("strides-in-vectors", program(REFUSED[name], RUN))[0].refused
