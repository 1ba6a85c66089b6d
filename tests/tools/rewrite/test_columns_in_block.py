# SPDX-License-Identifier: Apache-2.0
"""Blocks that walk down one column each get 32 neighbouring ones."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SUM = """
__global__ void sums(const float* in, float* out, int rows, int cols) {
  __shared__ float s[128];
  int c = blockIdx.x, t = threadIdx.x;
  float v = 0;
  for (int r = t; r < rows; r += blockDim.x) v += in[r * cols + c];
  s[t] = v;
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k /= 2) {
    if (t < k) s[t] += s[t + k];
    __syncthreads();
  }
  if (t == 0) out[c] = s[0];
}
"""
SUM_MAIN = """
  int rows = atoi(argv[1]), cols = atoi(argv[2]); Device<float> a(rows * cols), b(cols, 2);
  sums<<<cols, 128>>>(a, b, rows, cols); b.show();
"""
SOFTMAX = """
#define THREADS 64
__global__ void softmax_columns(float *x, int n, int channels)
{
    __shared__ float cache[THREADS];
    __shared__ float total;
    float *column = x + blockIdx.x;
    float top = -1e30f;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        top = fmaxf(top, column[i * channels]);
    cache[threadIdx.x] = top;
    __syncthreads();
    for (unsigned int s = 1; s < blockDim.x; s *= 2) {
        if (threadIdx.x % (2 * s) == 0)
            cache[threadIdx.x] = fmaxf(cache[threadIdx.x], cache[threadIdx.x + s]);
        __syncthreads();
    }
    top = cache[0];
    __syncthreads();
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sum += expf(column[i * channels] - top);
    cache[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        total = 0;
        for (int i = 0; i < blockDim.x; i++) total += cache[i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        column[i * channels] = expf(column[i * channels] - top) / total;
}
"""
SOFTMAX_MAIN = """
  int n = atoi(argv[1]), c = atoi(argv[2]); Device<float> x(n * c);
  int block = THREADS;
  softmax_columns<<<c, block>>>(x, n, c); x.show();
"""
PROGRAMS = {"sums": (SUM, SUM_MAIN), "a softmax in place": (SOFTMAX, SOFTMAX_MAIN)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_block_has_several_columns(name: str) -> None:
    after = holds("columns-in-block", program(*PROGRAMS[name]), (200, 40), (33, 31), (7, 64), relative=1e-4)
    assert rewritten("columns-in-block", after)[0].refused


LEFT = {
    "rows": (SUM.replace("r * cols + c", "c * cols + r"), SUM_MAIN, "columns that are neighbours"),
    "exchanging lanes": (SUM.replace("s[t] = v;", "s[t] = __shfl_xor_sync(~0u, v, 1);"), SUM_MAIN, "lanes"),
    "the block's size as a number": (SUM.replace("r += blockDim.x", "r += 128"), SUM_MAIN, "as a number"),
    "a grid of something else": (SUM, SUM_MAIN.replace("<<<cols,", "<<<cols / 2,"), "how many columns"),
    "shared memory that is passed on": (SUM.replace("= s[0]", "= *s"), SUM_MAIN, "passed on"),
    "too much shared memory": (SUM.replace("s[128]", "s[128], u[400]"), SUM_MAIN, "too much"),
    "a function that numbers threads": (
        "__device__ int mine() { return threadIdx.x; }\n" + SUM.replace("s[t] = v", "s[mine()] = v"),
        SUM_MAIN,
        "numbers threads itself",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_alone(name: str) -> None:
    code, main, why = LEFT[name]
    result, _ = rewritten("columns-in-block", program(code, main))
    assert not result.edits and why in result.refused
