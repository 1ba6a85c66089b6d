# SPDX-License-Identifier: Apache-2.0
"""Scans of a block's elements in shared memory become scans by shuffles."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SCAN = """
#define BS 128
__global__ void scan_blocks(const TYPE* in, TYPE* out, int n) {
  __shared__ TYPE s[2 * BS];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + threadIdx.x;
  BEGIN
  __syncthreads();
  LOOP
  if (i < n) out[i] = RESULT;
}
"""
MAIN = """
  int n = atoi(argv[1]); Device<TYPE> in(n), out(n, 2);
  scan_blocks<<<(n + BS - 1) / BS, BS>>>(in, out, n); out.show();
"""
PLAIN = "s[t] = i < n ? in[i] : 0;"
LOOPS = {
    "a value that begins with zero": (
        "int",
        PLAIN,
        """for (int d = 1; d < BS; d *= 2) {
    int v = 0;
    if (t >= d) v = s[t - d];
    __syncthreads();
    if (t >= d) s[t] += v;
    __syncthreads();
  }""",
        "s[t]",
    ),
    "a choice, shifts, and the block's extent": (
        "float",
        PLAIN,
        """for (unsigned int stride = 1; stride < blockDim.x; stride <<= 1) {
    float before = (threadIdx.x >= stride) ? s[threadIdx.x - stride] : 0.0f;
    __syncthreads();
    s[threadIdx.x] = s[threadIdx.x] + before;
    __syncthreads();
  }""",
        "s[t]",
    ),
    "the join is kept": (
        "unsigned",
        PLAIN,
        """for (int stride = 1; stride < blockDim.x; stride *= 2) {
    __syncthreads();
    unsigned temp;
    if (threadIdx.x >= stride) {
      temp = s[threadIdx.x] + s[threadIdx.x - stride];
    }
    __syncthreads();
    if (threadIdx.x >= stride) {
      s[threadIdx.x] = temp;
    }
  }""",
        "s[threadIdx.x]",
    ),
    "a running maximum": (
        "float",
        PLAIN,
        """for (int d = 1; d < BS; d <<= 1) {
    float v;
    if (t >= d) v = s[t - d];
    __syncthreads();
    if (t >= d) s[t] = fmaxf(s[t], v);
    __syncthreads();
  }""",
        "s[t]",
    ),
    "two buffers": (
        "float",
        f"int pin = 1, pout = 0;\n  {PLAIN}",
        """for (int off = 1; off < BS; off *= 2) {
    pout = 1 - pout;
    pin = 1 - pout;
    if (t >= off) s[pout * BS + t] = s[pin * BS + t] + s[pin * BS + t - off];
    else s[pout * BS + t] = s[pin * BS + t];
    __syncthreads();
  }""",
        "s[pout * BS + t]",
    ),
    "two buffers, of what is before": (
        "int",
        "int pout = 0, pin = 1;\n  s[pout * BS + t] = t > 0 && i - 1 < n ? in[i - 1] : 0;",
        """for (int off = 1; off < BS; off *= 2) {
    pout = 1 - pout;
    pin = 1 - pout;
    if (t >= off) {
      s[pout * BS + t] = s[pin * BS + t] + s[pin * BS + t - off];
    } else {
      s[pout * BS + t] = s[pin * BS + t];
    }
    __syncthreads();
  }""",
        "s[pout * BS + t]",
    ),
}


def whole(kind: str, begin: str, loop: str, result: str) -> str:
    code = SCAN.replace("BEGIN", begin).replace("LOOP", loop).replace("RESULT", result)
    return program(code.replace("TYPE", kind), MAIN.replace("TYPE", kind))


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.sampled(2)
def test_blocks_are_scanned_by_shuffles(name: str) -> None:
    after = holds("scan-by-shuffle", whole(*LOOPS[name]), (1000,), (128,), (5,), relative=1e-5, absolute=1e-4)
    assert "block_scan(s[" in after
    assert rewritten("scan-by-shuffle", after)[0].refused


KIND, BEGIN, LOOP, RESULT = LOOPS["a value that begins with zero"]
LEFT = {
    "no barrier between": whole(
        KIND, BEGIN, LOOP.replace("    __syncthreads();\n    if", "    if", 1), RESULT
    ),
    "not the whole block": whole(KIND, BEGIN, LOOP.replace("d < BS", "d < 32"), RESULT),
    "a difference": whole(KIND, BEGIN, LOOP.replace("+= v", "-= v"), RESULT),
    "a value that begins with something else": whole(
        KIND, BEGIN, LOOP.replace("int v = 0", "int v = 1").replace("if (t >= d) s[t]", "s[t]"), RESULT
    ),
    "another neighbour": whole(KIND, BEGIN, LOOP.replace("s[t - d]", "s[t - d + 1]"), RESULT),
    "blocks that are no whole warps": whole(KIND, BEGIN, LOOP, RESULT).replace("BS 128", "BS 100"),
    "another number": whole(KIND, BEGIN, LOOP, RESULT).replace(
        "int t = threadIdx.x", "int t = 127 - threadIdx.x"
    ),
    "under a condition": whole(KIND, BEGIN, f"if (n > 7) {{ {LOOP} }}", RESULT),
    "a buffer's number that is used": whole(*LOOPS["two buffers"]).replace(
        "= s[pout * BS + t];\n}", "= s[pin * BS + t];\n}"
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_alone(name: str) -> None:
    assert not rewritten("scan-by-shuffle", LEFT[name])[0].edits


@pytest.mark.compiler
def test_the_run_may_tell_the_block() -> None:
    code = """
__global__ void scan_block(const int* in, int* out, int* totals, int n) {
  extern __shared__ int temp[];
  int tid = threadIdx.x;
  int i = blockIdx.x * blockDim.x + tid;
  temp[tid] = i < n ? in[i] : 0;
  __syncthreads();
  for (int offset = 1; offset < blockDim.x; offset <<= 1) {
    int t = tid >= offset ? temp[tid - offset] : 0;
    __syncthreads();
    temp[tid] += t;
    __syncthreads();
  }
  if (i < n) out[i] = temp[tid];
  if (tid == blockDim.x - 1) totals[blockIdx.x] = temp[tid];
}
"""
    main = """
  int n = atoi(argv[1]), block = atoi(argv[2]);
  Device<int> in(n), out(n), totals((n + block - 1) / block);
  scan_block<<<(n + block - 1) / block, block, block * sizeof(int)>>>(in, out, totals, n); out.show(); totals.show();
"""
    after = holds("scan-by-shuffle", program(code, main), (1000, 256), (300, 96), (70, 32))
    assert "temp[tid] = block_scan(temp[tid]);" in after
