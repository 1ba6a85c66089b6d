#include "mini/arch/copy_sm80.hpp"

__global__ void copy_kernel(float4 const* in, float4* out) {
  __shared__ float4 tile[128];
  mini::SM80_CP_ASYNC_CACHEGLOBAL<float4>::copy(in[threadIdx.x], tile[threadIdx.x]);
  mini::cp_async_fence();
  mini::cp_async_wait<0>();
  out[threadIdx.x] = tile[threadIdx.x];
}
