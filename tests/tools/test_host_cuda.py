# SPDX-License-Identifier: Apache-2.0
"""CUDA on the CPU does what a card does, and fails where a card would only sometimes."""

from __future__ import annotations

import pytest
from tests.host_cuda import HostProgram, HostRunError, agree, same_results
from tests.host_cuda.translate import as_host_code

pytestmark = pytest.mark.compiler

_MAIN = r"""
int main() {
  const int n = 1000;
  float *in, *out, host[n];
  for (int i = 0; i < n; i++) host[i] = 0.25f * i;
  cudaMalloc(&in, n * sizeof(float));
  cudaMalloc((void**)&out, n * sizeof(float));
  cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
  cudaMemset(out, 0, n * sizeof(float));
  LAUNCH;
  cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; i++) printf("%.9g\n", host[i]);
  printf("%s\n", cudaGetErrorString(cudaGetLastError()));
}
"""


def program(kernel: str, launch: str) -> str:
    return f"#include <cuda_runtime.h>\n#include <cstdio>\n{kernel}\n" + _MAIN.replace("LAUNCH", launch)


def lines(text: str) -> list[str]:
    return text.splitlines()


def test_threads_blocks_and_guards() -> None:
    kernel = """__global__ void scale(float* out, const float* in, float by, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i >= n) return;
      out[i] = by * in[i];
    }"""
    got = lines(HostProgram(program(kernel, "scale<<<(n + 255) / 256, 256>>>(out, in, 2.0f, n)")).run())
    assert got == [f"{0.5 * i:.9g}" for i in range(1000)] + ["no error"]


REDUCE = """template <int kBlock>
__global__ void total(float* out, const float* in, int n) {
  extern __shared__ float partial[];
  int i = blockIdx.x * kBlock + threadIdx.x;
  float mine = i < n ? in[i] : 0.0f;
  for (int offset = 16; offset > 0; offset /= 2) mine += __shfl_down_sync(0xffffffffu, mine, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = mine;
  SYNC
  if (threadIdx.x == 0) {
    float sum = 0.0f;
    for (int w = 0; w < kBlock / 32; w++) sum += partial[w];
    atomicAdd(out, sum);
  }
}"""
LAUNCH = "total<128><<<dim3((n + 127) / 128), dim3(128), 4 * sizeof(float), 0>>>(out, in, n)"


def test_warp_functions_shared_memory_and_atomics() -> None:
    for order in (0, 1, 5):
        got = lines(HostProgram(program(REDUCE.replace("SYNC", "__syncthreads();"), LAUNCH)).run(order=order))
        assert float(got[0]) == pytest.approx(0.25 * 999 * 1000 / 2, rel=1e-6)


def test_a_missing_barrier_shows_in_some_order() -> None:
    whole, lacking = (program(REDUCE.replace("SYNC", sync), LAUNCH) for sync in ("__syncthreads();", ""))
    same_results(whole, whole, relative=1e-5)
    with pytest.raises(HostRunError, match="in order"):
        same_results(whole, lacking, relative=1e-5)


def test_lanes_of_a_partial_warp_and_of_tiles() -> None:
    kernel = """#include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    __global__ void sums(float* out, const float* in, int n) {
      auto tile = cg::tiled_partition<8>(cg::this_thread_block());
      float v = threadIdx.x;
      for (int k = 4; k; k /= 2) v += tile.shfl_xor(v, k);
      if (tile.thread_rank() == 0) out[threadIdx.x / 8] = v;
      unsigned odd = __ballot_sync(0xffu << (threadIdx.x / 8 * 8), threadIdx.x & 1);
      if (threadIdx.x == 8) out[5] = __popc(odd);
    }"""
    got = lines(HostProgram(program(kernel, "sums<<<1, 40>>>(out, in, n)")).run())
    assert got[:6] == ["28", "92", "156", "220", "284", "4"]


@pytest.mark.parametrize(
    ("kernel", "launch", "said"),
    [
        ("__global__ void k(float* out) { out[threadIdx.x + 1000] = 1; }", "k<<<1, 8>>>(out)", "exit -11"),
        (
            "__global__ void k(float* out) { *(float4*)(out + 1) = make_float4(1, 2, 3, 4); }",
            "k<<<1, 1>>>(out)",
            "misaligned",
        ),
        (
            "__global__ void k(float* out) { __shared__ float s[4]; s[threadIdx.x] = 1; out[0] = s[0]; }",
            "k<<<1, 5>>>(out)",
            "out of bounds",
        ),
        (
            "__global__ void k(float* out) { if (threadIdx.x) out[0] = __shfl_sync(1u, 1.0f, 0); }",
            "k<<<1, 32>>>(out)",
            "leaves out its own lane",
        ),
    ],
)
def test_what_a_card_forbids_fails(kernel: str, launch: str, said: str) -> None:
    with pytest.raises(HostRunError, match=said):
        HostProgram(program(kernel, launch)).run()


def test_a_lane_that_has_exited_is_not_waited_for_and_gives_nothing() -> None:
    kernel = """__global__ void k(float* out) {
      if (threadIdx.x == 3) return;
      out[threadIdx.x] = __shfl_xor_sync(~0u, 1.0f * threadIdx.x, 1);
    }"""
    got = lines(HostProgram(program(kernel, "k<<<1, 8>>>(out)")).run())
    assert [value.lstrip("-") for value in got[:8]] == ["1", "0", "nan", "0", "5", "4", "7", "6"]


def test_a_launch_beyond_the_limits_is_an_error_of_the_runtime() -> None:
    text = program("__global__ void k(float* out) { out[0] = 1; }", "k<<<1, 2048>>>(out)")
    got = lines(HostProgram(text).run())
    assert got[0] == "0"
    assert got[-1] == "invalid configuration argument"


def test_halves_round_as_a_card_rounds() -> None:
    kernel = """#include <cuda_fp16.h>
    #include <cuda_bf16.h>
    __global__ void k(float* out) {
      out[0] = __half2float(__hadd(__float2half(2048.0f), __float2half(1.0f)));
      out[1] = __bfloat162float(__float2bfloat16(1.00390625f));
      half2 both = __hfma2(__float2half2_rn(2.0f), __floats2half2_rn(1.5f, 3.0f), __float2half2_rn(1.0f));
      out[2] = __low2float(both); out[3] = __high2float(both);
    }"""
    assert lines(HostProgram(program(kernel, "k<<<1, 1>>>(out)")).run())[:4] == ["2048", "1", "4", "7"]


def test_launches_are_found_in_text() -> None:
    code = as_host_code('m::k<T, 4><<<dim3(g, f(1)), b, s>>>(a[0], "x)", (int)c);')
    assert code == (
        "host_cuda::Launcher{host_cuda::configure(dim3(g, f(1)), b, s)} = "
        '[&] { m::k<T, 4>(a[0], "x)", (int)c); };'
    )


def test_outputs_agree_within_errors() -> None:
    assert agree("sum 1.0 of 3", "sum 1.0000001 of 3", relative=1e-6)
    assert not agree("sum 1.0 of 3", "sum 1.1 of 3", relative=1e-6)
    assert not agree("ok 1", "bad 1", relative=1)
    assert agree("nan", "nan")
