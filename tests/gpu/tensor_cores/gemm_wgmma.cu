// SPDX-License-Identifier: Apache-2.0
// C = A * B of bfloat16 matrices, all row-major, an element a thread, sums in float.
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
__global__ void __launch_bounds__(kBlockX, 1) gemm(const bf16* A, const bf16* B, bf16* C, int M, int N, int K) {
  using namespace cute;
  using SharedA = decltype(tile_to_shape(
      GMMA::Layout_K_SW128_Atom<bfloat16_t>{},
      Shape<Int<kTileM>, Int<kTileK>, Int<kStages>>{}));
  using SharedB = decltype(tile_to_shape(
      GMMA::Layout_MN_SW128_Atom<bfloat16_t>{},
      Shape<Int<kTileN>, Int<kTileK>, Int<kStages>>{}));
  using TiledMma = decltype(make_tiled_mma(
      SM90_64x256x16_F32BF16BF16_SS<GMMA::Major::K, GMMA::Major::MN>{},
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
  const int m0 = blockIdx.y * kTileM, n0 = blockIdx.x * kTileN, tiles = max((K + kTileK - 1) / kTileK, 1);
  const bool whole = K % 8 == 0 && N % 8 == 0 && ((size_t)A | (size_t)B) % 16 == 0;
  const int a_row = threadIdx.x / 8, a_k = threadIdx.x % 8 * 8;
  const int b_k = threadIdx.x / 32, b_col = threadIdx.x % 32 * 8;
  const bf16* const from_a = A + (size_t)(m0 + a_row) * K + a_k;
  const bf16* const from_b = B + (size_t)b_k * N + n0 + b_col;

  auto load = [&](int tile) {
    const int stage = tile % kStages, k0 = tile * kTileK, here_k = K - k0, here_m = M - m0, here_n = N - n0;
    const bf16* a = from_a + k0;
    const bf16* b = from_b + (size_t)k0 * N;
    if (whole) {
#pragma unroll
      for (int i = 0; i < kTileM; i += 32, a += (size_t)32 * K) {
        bfloat16_t* const to = &to_a(a_row + i, a_k, stage);
        copy8(to, a, a_row + i < here_m && a_k < here_k);
      }
#pragma unroll
      for (int i = 0; i < kTileK; i += 8, b += (size_t)8 * N) {
        bfloat16_t* const to = &to_b(b_col, b_k + i, stage);
        copy8(to, b, b_k + i < here_k && b_col < here_n);
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < kTileM; i += 32, a += (size_t)32 * K) {
        bfloat16_t* const to = &to_a(a_row + i, a_k, stage);
        load8(to, a, a_row + i < here_m ? here_k - a_k : 0);
      }
#pragma unroll 1
      for (int i = 0; i < kTileK; i += 8, b += (size_t)8 * N) {
        bfloat16_t* const to = &to_b(b_col, b_k + i, stage);
        load8(to, b, b_k + i < here_k ? here_n - b_col : 0);
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

  // through shared memory, so that rows are written whole; eight elements more a row keep its banks apart
  constexpr int stride = kTileN + 8;
  bf16* const staged = (bf16*)shared;
  __syncthreads();
  const auto at = thread_mma.partition_C(make_identity_tensor(Shape<Int<kTileM>, Int<kTileN>>{}));
#pragma unroll
  for (int i = 0; i < size(acc); i += 2) {
    const int row = get<0>(at(i)), col = get<1>(at(i));
    *(__nv_bfloat162*)&staged[row * stride + col] = __floats2bfloat162_rn(acc(i), acc(i + 1));
  }
  __syncthreads();
  const bool whole_c = N % 8 == 0 && (size_t)C % 16 == 0;
#pragma unroll 4
  for (int i = 0; i < kTileM; i += 8) {
    const int row = b_k + i, col = n0 + b_col;
    if (m0 + row >= M) break;
    bf16* const to = C + (size_t)(m0 + row) * N + col;
    const bf16* const from = &staged[row * stride + b_col];
    if (whole_c && col < N) *(uint4*)to = *(const uint4*)from;
    else
      for (int j = 0; j < 8 && col + j < N; j++) to[j] = from[j];
  }
}

extern "C" void launch(const bf16* A, const bf16* B, bf16* C, int M, int N, int K, cudaStream_t stream) {
  dim3 block(kBlockX, kBlockY), grid((N + kTileN - 1) / kTileN, (M + kTileM - 1) / kTileM);
  cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  gemm<<<grid, block, kShared, stream>>>(A, B, C, M, N, K);
}

int main(int argc, char** argv) {
  int M = argc > 1 ? atoi(argv[1]) : 2048;
  int N = argc > 2 ? atoi(argv[2]) : 2048;
  int K = argc > 3 ? atoi(argv[3]) : 2048;
  std::vector<bf16> a((size_t)M * K), b((size_t)K * N), c((size_t)M * N);
  unsigned state = 1;
  auto next = [&] { return ((state = state * 1664525u + 1013904223u) >> 8) * (2.0f / (1 << 24)) - 1.0f; };
  for (auto& x : a) x = __float2bfloat16(next());
  for (auto& x : b) x = __float2bfloat16(next());
  bf16 *dA, *dB, *dC;
  cudaMalloc(&dA, a.size() * sizeof(bf16));
  cudaMalloc(&dB, b.size() * sizeof(bf16));
  cudaMalloc(&dC, c.size() * sizeof(bf16));
  cudaMemcpy(dA, a.data(), a.size() * sizeof(bf16), cudaMemcpyHostToDevice);
  cudaMemcpy(dB, b.data(), b.size() * sizeof(bf16), cudaMemcpyHostToDevice);
  launch(dA, dB, dC, M, N, K, 0);
  launch(dA, dB, dC, M, N, K, 0);
  if (cudaDeviceSynchronize() != cudaSuccess) return 2;
  cudaMemcpy(c.data(), dC, c.size() * sizeof(bf16), cudaMemcpyDeviceToHost);
  for (size_t i = 0; i < c.size(); i += c.size() / 257 + 1) {
    double want = 0;
    for (int k = 0; k < K; k++)
      want += (double)__bfloat162float(a[i / N * K + k]) * __bfloat162float(b[(size_t)k * N + i % N]);
    if (std::fabs(want - __bfloat162float(c[i])) > 0.01 * std::fabs(want) + 0.01) {
      std::printf("differs at %zu\n", i);
      return 1;
    }
  }
  std::printf("all right\n");
  return 0;
}
