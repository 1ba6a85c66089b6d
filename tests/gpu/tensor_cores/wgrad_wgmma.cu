// SPDX-License-Identifier: Apache-2.0
// The weight gradients of a mixture of experts: dW[e] = X[e]^T * dY[e], where the tokens of expert e are the rows
// offsets[e] to offsets[e + 1] of X (tokens by D) and dY (tokens by F). An element a thread, sums in float.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/arch/copy_sm80.hpp>

typedef __nv_bfloat16 bf16;

constexpr int kBlockX = 256;
constexpr int kBlockY = 1;
constexpr int kTileM = 128;
constexpr int kTileN = 256;
constexpr int kTileK = 64;
// Of the stages two are multiplied, two are loaded: nobody waits for a multiplication before the next is issued.
constexpr int kStages = 4;
constexpr int kAhead = 2;
constexpr int kShared = kStages * (kTileM + kTileN) * kTileK * 2;

// Eight neighbours from global into shared memory, those behind the first `valid` zero.
__device__ __forceinline__ void load8(cute::bfloat16_t* to, const bf16* from, int valid) {
  uint4 packed;
  unsigned short* part = (unsigned short*)&packed;
#pragma unroll
  for (int i = 0; i < 8; i++) part[i] = i < valid ? __bfloat16_as_ushort(from[i]) : (unsigned short)0;
  *(uint4*)to = packed;
}

// The same, asynchronously, of rows that are whole eights.
__device__ __forceinline__ void copy8(cute::bfloat16_t* to, const bf16* from, bool valid) {
  cute::SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<cute::uint128_t>::copy(*(const cute::uint128_t*)from, *(cute::uint128_t*)to,
                                                               valid);
}

// A tile of 128 by 256 a block: cp.async into 128-byte swizzled stages, wgmma by two warpgroups of 64 rows each.
// Both operands lie with their tokens apart, which wgmma takes of bfloat16 as it is.
__global__ void __launch_bounds__(kBlockX, 1) wgrad(const bf16* X, const bf16* dY, const int* offsets, float* dW,
                                                    int D, int F) {
  using namespace cute;
  using SharedA = decltype(tile_to_shape(
      GMMA::Layout_MN_SW128_Atom<bfloat16_t>{},
      Shape<Int<kTileM>, Int<kTileK>, Int<kStages>>{}));
  using SharedB = decltype(tile_to_shape(
      GMMA::Layout_MN_SW128_Atom<bfloat16_t>{},
      Shape<Int<kTileN>, Int<kTileK>, Int<kStages>>{}));
  using TiledMma = decltype(make_tiled_mma(
      SM90_64x256x16_F32BF16BF16_SS<GMMA::Major::MN, GMMA::Major::MN>{},
      Layout<Shape<_2, _1, _1>>{}));
  extern __shared__ __align__(1024) unsigned char shared[];
  bfloat16_t* const shared_a = (bfloat16_t*)shared;
  bfloat16_t* const shared_b = shared_a + kStages * kTileM * kTileK;
  const auto sA = make_tensor(make_smem_ptr(shared_a), SharedA{});
  const auto sB = make_tensor(make_smem_ptr(shared_b), SharedB{});
  TiledMma mma;
  const auto thread_mma = mma.get_thread_slice(threadIdx.x);
  const auto tCrA = thread_mma.make_fragment_A(thread_mma.partition_A(sA));
  const auto tCrB = thread_mma.make_fragment_B(thread_mma.partition_B(sB));
  const auto to_a = as_position_independent_swizzle_tensor(sA);
  const auto to_b = as_position_independent_swizzle_tensor(sB);
  const int expert = blockIdx.z, first = offsets[expert], last = offsets[expert + 1];
  const int d0 = blockIdx.y * kTileM, f0 = blockIdx.x * kTileN, tiles = max((last - first + kTileK - 1) / kTileK, 1);
  const bool whole = D % 8 == 0 && F % 8 == 0 && ((size_t)X | (size_t)dY) % 16 == 0;
  const int a_k = threadIdx.x / 16, a_row = threadIdx.x % 16 * 8;
  const int b_k = threadIdx.x / 32, b_col = threadIdx.x % 32 * 8;
  const bf16* const from_a = X + (size_t)(first + a_k) * D + d0 + a_row;
  const bf16* const from_b = dY + (size_t)(first + b_k) * F + f0 + b_col;

  auto load = [&](int tile) {
    const int stage = tile % kStages, t0 = tile * kTileK, here_t = last - first - t0;
    const int here_d = D - d0, here_f = F - f0;
    const bf16* a = from_a + (size_t)t0 * D;
    const bf16* b = from_b + (size_t)t0 * F;
    if (whole) {
#pragma unroll
      for (int i = 0; i < kTileK; i += 16, a += (size_t)16 * D) {
        bfloat16_t* const to = &to_a(a_row, a_k + i, stage);
        copy8(to, a, a_k + i < here_t && a_row < here_d);
      }
#pragma unroll
      for (int i = 0; i < kTileK; i += 8, b += (size_t)8 * F) {
        bfloat16_t* const to = &to_b(b_col, b_k + i, stage);
        copy8(to, b, b_k + i < here_t && b_col < here_f);
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < kTileK; i += 16, a += (size_t)16 * D) {
        bfloat16_t* const to = &to_a(a_row, a_k + i, stage);
        load8(to, a, a_k + i < here_t ? here_d - a_row : 0);
      }
#pragma unroll 1
      for (int i = 0; i < kTileK; i += 8, b += (size_t)8 * F) {
        bfloat16_t* const to = &to_b(b_col, b_k + i, stage);
        load8(to, b, b_k + i < here_t ? here_f - b_col : 0);
      }
    }
  };

  auto acc = partition_fragment_C(mma, Shape<Int<kTileM>, Int<kTileN>>{});
#pragma unroll
  for (int t = 0; t < kAhead; t++) {
    if (t < tiles) load(t);
    cp_async_fence();
  }
  auto arrived = [&] {
    cp_async_wait<kAhead - 1>();
    // what cp.async wrote is read by wgmma's proxy
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
  };
  auto refill = [&](int t) {
    if (t < tiles) load(t);
    cp_async_fence();
  };
  arrived();
  warpgroup_fence_operand(acc);
  warpgroup_arrive();
  mma.accumulate_ = GMMA::ScaleOut::Zero;
#pragma unroll
  for (int k = 0; k < size<2>(tCrA); k++) {
    cute::gemm(mma, tCrA(_, _, k, 0), tCrB(_, _, k, 0), acc);
    mma.accumulate_ = GMMA::ScaleOut::One;
  }
  warpgroup_commit_batch();
  refill(kAhead);
#pragma unroll 1
  for (int t = 1; t < tiles; t++) {
    arrived();
    const int stage = t % kStages;
    warpgroup_fence_operand(acc);
    warpgroup_arrive();
    cute::gemm(mma, tCrA(_, _, _, stage), tCrB(_, _, _, stage), acc);
    warpgroup_commit_batch();
    // the stage of two tiles ago: every warp has waited for its multiplication before the barrier
    refill(t + kAhead);
    warpgroup_wait<1>();
    warpgroup_fence_operand(acc);
  }
  warpgroup_wait<0>();
  warpgroup_fence_operand(acc);

  const auto at = thread_mma.partition_C(make_identity_tensor(Shape<Int<kTileM>, Int<kTileN>>{}));
  const bool pairs = F % 2 == 0 && (size_t)dW % 8 == 0;
#pragma unroll
  for (int i = 0; i < size(acc); i += 2) {
    const int d = d0 + get<0>(at(i)), f = f0 + get<1>(at(i));
    if (d >= D) continue;
    float* const to = dW + ((size_t)expert * D + d) * F + f;
    if (pairs && f < F) *(float2*)to = make_float2(acc(i), acc(i + 1));
    else {
      if (f < F) to[0] = acc(i);
      if (f + 1 < F) to[1] = acc(i + 1);
    }
  }
}

extern "C" void launch(const bf16* X, const bf16* dY, const int* offsets, float* dW, int experts, int D, int F,
                       cudaStream_t stream) {
  dim3 block(kBlockX, kBlockY), grid((F + kTileN - 1) / kTileN, (D + kTileM - 1) / kTileM, experts);
  cudaFuncSetAttribute(wgrad, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  wgrad<<<grid, block, kShared, stream>>>(X, dY, offsets, dW, D, F);
}

int main(int argc, char** argv) {
  int tokens = argc > 1 ? atoi(argv[1]) : 4096;
  int D = argc > 2 ? atoi(argv[2]) : 1024;
  int F = argc > 3 ? atoi(argv[3]) : 2048;
  int experts = argc > 4 ? atoi(argv[4]) : 8;
  std::vector<bf16> x((size_t)tokens * D), dy((size_t)tokens * F);
  std::vector<float> dw((size_t)experts * D * F);
  std::vector<int> offsets(experts + 1);
  unsigned state = 1;
  auto next = [&] { return ((state = state * 1664525u + 1013904223u) >> 8) * (2.0f / (1 << 24)) - 1.0f; };
  for (auto& v : x) v = __float2bfloat16(next());
  for (auto& v : dy) v = __float2bfloat16(next());
  // what a router gives: some experts get twice as many tokens as others
  double total = 0, sum = 0;
  std::vector<double> share(experts);
  for (auto& s : share) total += s = 1.5 + 0.5 * next();
  for (int e = 0; e < experts; e++) offsets[e + 1] = (int)((sum += share[e]) / total * tokens + 0.5);
  bf16 *dX, *dDY;
  int* dOffsets;
  float* dDW;
  cudaMalloc(&dX, x.size() * sizeof(bf16));
  cudaMalloc(&dDY, dy.size() * sizeof(bf16));
  cudaMalloc(&dOffsets, offsets.size() * sizeof(int));
  cudaMalloc(&dDW, dw.size() * sizeof(float));
  cudaMemcpy(dX, x.data(), x.size() * sizeof(bf16), cudaMemcpyHostToDevice);
  cudaMemcpy(dDY, dy.data(), dy.size() * sizeof(bf16), cudaMemcpyHostToDevice);
  cudaMemcpy(dOffsets, offsets.data(), offsets.size() * sizeof(int), cudaMemcpyHostToDevice);
  launch(dX, dDY, dOffsets, dDW, experts, D, F, 0);
  launch(dX, dDY, dOffsets, dDW, experts, D, F, 0);
  if (cudaDeviceSynchronize() != cudaSuccess) return 2;
  cudaMemcpy(dw.data(), dDW, dw.size() * sizeof(float), cudaMemcpyDeviceToHost);
  for (size_t i = 0; i < dw.size(); i += dw.size() / 257 + 1) {
    size_t expert = i / ((size_t)D * F), d = i / F % D, f = i % F;
    double want = 0;
    for (int t = offsets[expert]; t < offsets[expert + 1]; t++)
      want += (double)__bfloat162float(x[(size_t)t * D + d]) * __bfloat162float(dy[(size_t)t * F + f]);
    if (std::fabs(want - dw[i]) > 1e-3 * std::fabs(want) + 1e-3) {
      std::printf("differs at %zu\n", i);
      return 1;
    }
  }
  std::printf("all right\n");
  return 0;
}
