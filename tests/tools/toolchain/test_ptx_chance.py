# SPDX-License-Identifier: Apache-2.0
"""What may come out otherwise from launch to launch, by the PTX."""

from __future__ import annotations

import pytest
from tests.compiled import nvcc_made

from warplens_tools.toolchain.ptx_chance import by_chance

SOURCE = """
__device__ __noinline__ void put(int* at, int by) { atomicAdd(at, by); }
extern "C" __global__ void plain(float* out, const float* in, int n) {
    __shared__ float part[64];
    part[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < n) out[threadIdx.x] = part[63 - threadIdx.x] + __shfl_down_sync(~0u, in[threadIdx.x], 1);
}
extern "C" __global__ void adds(float* out, const float* in) { atomicAdd(out, in[threadIdx.x]); }
extern "C" __global__ void waits(volatile int* flag, int* out) { while (!*flag) {} *out = 1; }
extern "C" __global__ void times(long long* out) { *out = clock64(); }
extern "C" __global__ void calls(int* out) { put(out, threadIdx.x); }
"""


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("kernel", "chance"),
    [("plain", False), ("adds", True), ("waits", True), ("times", True), ("calls", True), ("none", True)],
)
def test_what_threads_order_may_show_in(kernel: str, chance: bool) -> None:
    assert by_chance(nvcc_made("k.ptx", SOURCE, "-ptx", "-arch=sm_90").read_text(), kernel) is chance
