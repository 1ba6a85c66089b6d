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
#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/copy_sm80.hpp>
#include <cute/arch/copy_sm90_desc.hpp>
#include <cute/arch/copy_sm90_tma.hpp>
#include <cutlass/arch/barrier.h>
#include <cutlass/arch/reg_reconfig.h>

typedef __nv_bfloat16 bf16;

// A warpgroup loads, two multiply, 64 rows of a tile each.
constexpr int kMultiply = 256;
constexpr int kBlockX = kMultiply + 128;
constexpr int kBlockY = 1;
constexpr int kTileM = 128;
constexpr int kTileN = 256;
constexpr int kTileK = 64;
constexpr int kStages = 4;
// Blocks that share loads.
constexpr int kPair = 1;
// At most as many as an H100 and an H200 have multiprocessors; each takes tile after tile.
constexpr int kBlocks = 132;
// Rows of clusters' tiles that are walked column by column, so that what is loaded stays in L2.
constexpr int kRows = 8;
constexpr int kStageA = kTileM * kTileK, kStageB = kTileN * kTileK;
constexpr int kTensors = kStages * (kStageA + kStageB) * 2;
constexpr int kShared = kTensors + 2 * kStages * 8;
// Stages that are loaded while two are multiplied.
constexpr int kAhead = 2;

struct Place {
  int m, n;
};

// Where one of `high` by `wide` tiles is.
__device__ __forceinline__ Place tile_at(long long index, long long high, long long wide) {
  const long long first = index / (kRows * wide) * kRows, in = index - first * wide;
  const long long rows = min((long long)kRows, high - first);
  return {(int)(first + in % rows), (int)(in / rows)};
}

// Four words of each of four neighbouring lanes, turned: lane i has the i-th of all.
__device__ __forceinline__ void turn(unsigned (&v)[4]) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const unsigned got = __shfl_xor_sync(~0u, odd ? v[i] : v[i + 1], 1);
    (odd ? v[i] : v[i + 1]) = got;
  }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const unsigned got = __shfl_xor_sync(~0u, high ? v[i] : v[i + 2], 2);
    (high ? v[i] : v[i + 2]) = got;
  }
}

// The sums of a warp's 16 rows, 16 bytes a lane where rows are whole ones.
template <class Sums>
__device__ __forceinline__ void store(const Sums& acc, bf16* C, int row, int col, int M, int N, bool whole) {
  const int q = threadIdx.x % 4;
#pragma unroll
  for (int g = 0; g < kTileN / 32; g++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      unsigned v[4];
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const int at = 4 * (4 * g + j) + 2 * h;
        const __nv_bfloat162 two = __floats2bfloat162_rn(acc(at), acc(at + 1));
        v[j] = *(const unsigned*)&two;
      }
      turn(v);
      const int r = row + 8 * h, c = col + 32 * g + 8 * q;
      bf16* const to = C + (size_t)r * N + c;
      if (r >= M || c >= N) continue;
      if (whole)
        *(uint4*)to = make_uint4(v[0], v[1], v[2], v[3]);
      else
#pragma unroll
        for (int j = 0; j < 8; j++)
          if (c + j < N) to[j] = __ushort_as_bfloat16((unsigned short)(v[j / 2] >> j % 2 * 16));
    }
}

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

// The warpgroups that multiply, all of them.
__device__ __forceinline__ void together() { cutlass::arch::NamedBarrier::arrive_and_wait(kMultiply, 0); }

// One tile of matrices whose rows are not whole eights, by the warpgroups that multiply alone.
template <class SharedA, class SharedB, class Mma>
__device__ void tile_of_any(const bf16* A, const bf16* B, bf16* C, int M, int N, int K, Place tile) {
  using namespace cute;
  extern __shared__ __align__(1024) unsigned char shared[];
  bfloat16_t* const shared_a = (bfloat16_t*)shared;
  bfloat16_t* const shared_b = shared_a + kStages * kTileM * kTileK;
  const auto sA = make_tensor(make_smem_ptr(shared_a), SharedA{});
  const auto sB = make_tensor(make_smem_ptr(shared_b), SharedB{});
  const int thread = threadIdx.x - (kBlockX - kMultiply);
  Mma mma;
  const auto thread_mma = mma.get_thread_slice(thread);
  const auto tCrA = thread_mma.make_fragment_A(thread_mma.partition_A(sA));
  const auto tCrB = thread_mma.make_fragment_B(thread_mma.partition_B(sB));
  const auto to_a = as_position_independent_swizzle_tensor(sA);
  const auto to_b = as_position_independent_swizzle_tensor(sB);
  const int m0 = tile.m * kTileM, n0 = tile.n * kTileN, tiles = max((K + kTileK - 1) / kTileK, 1);
  const int a_row = thread / 8, a_k = thread % 8 * 8;
  const int b_k = thread / 32, b_col = thread % 32 * 8;
  const bf16* const from_a = A + (size_t)(m0 + a_row) * K + a_k;
  const bf16* const from_b = B + (size_t)b_k * N + n0 + b_col;

  auto load = [&](int at) {
    const int stage = at % kStages, k0 = at * kTileK, here_k = K - k0, here_m = M - m0, here_n = N - n0;
    const bf16* a = from_a + k0;
    const bf16* b = from_b + (size_t)k0 * N;
#pragma unroll 1
    for (int i = 0; i < kTileM; i += 32, a += (size_t)32 * K)
      load8(&to_a(a_row + i, a_k, stage), a, a_row + i < here_m ? here_k - a_k : 0);
#pragma unroll 1
    for (int i = 0; i < kTileK; i += 8, b += (size_t)8 * N)
      load8(&to_b(b_col, b_k + i, stage), b, b_k + i < here_k ? here_n - b_col : 0);
  };
  auto refill = [&](int t) {
    if (t < tiles) load(t);
  };
  auto acc = partition_fragment_C(mma, Shape<Int<kTileM>, Int<kTileN>>{});
  // of the tile before, all has been multiplied
  together();
#pragma unroll
  for (int t = 0; t < kAhead; t++) refill(t);
  mma.accumulate_ = GMMA::ScaleOut::Zero;
#pragma unroll 1
  for (int t = 0; t < tiles; t++) {
    // what was written here is read by wgmma's proxy
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    together();
    warpgroup_fence_operand(acc);
    warpgroup_arrive();
#pragma unroll
    for (int k = 0; k < size<2>(tCrA); k++) {
      cute::gemm(mma, tCrA(_, _, k, t % kStages), tCrB(_, _, k, t % kStages), acc);
      mma.accumulate_ = GMMA::ScaleOut::One;
    }
    warpgroup_commit_batch();
    // the stage of two tiles ago: every warp has waited for its multiplication before the barrier
    refill(t + kAhead);
    warpgroup_wait<1>();
    warpgroup_fence_operand(acc);
  }
  warpgroup_wait<0>();
  warpgroup_fence_operand(acc);
  store(acc, C, m0 + thread / 32 * 16 + thread % 32 / 4, n0, M, N, N % 8 == 0 && (size_t)C % 16 == 0);
}

// Tiles of 128 by 256: cp.async into 128-byte swizzled stages by a warpgroup, wgmma by two of 64 rows each.
__global__ void __launch_bounds__(kBlockX, 1)
    gemm(const bf16* A, const bf16* B, bf16* C, int M, int N, int K) {
  using namespace cute;
  using Filled = cutlass::arch::ClusterBarrier;
  using Free = cutlass::arch::ClusterBarrier;
  using SharedA = decltype(tile_to_shape(
      GMMA::Layout_K_SW128_Atom<bfloat16_t>{},
      Shape<Int<kTileM>, Int<kTileK>, Int<kStages>>{}));
  // columns in pieces of 64, of each all of k one after the other: what one copy of a tensor map writes
  using SharedB = decltype(tile_to_shape(
      GMMA::Layout_MN_SW128_Atom<bfloat16_t>{},
      Shape<Int<kTileN>, Int<kTileK>, Int<kStages>>{},
      Step<_2, _1, _3>{}));
  using Mma = decltype(make_tiled_mma(
      SM90_64x256x16_F32BF16BF16_SS<GMMA::Major::K, GMMA::Major::MN>{},
      Layout<Shape<_2, _1, _1>>{}));
  extern __shared__ __align__(1024) unsigned char shared[];
  bfloat16_t* const shared_a = (bfloat16_t*)shared;
  bfloat16_t* const shared_b = shared_a + kStages * kStageA;
  Filled* const filled = (Filled*)(shared + kTensors);
  Free* const free = (Free*)(filled + kStages);
  const long long block = (long long)blockIdx.y * gridDim.x + blockIdx.x;
  const long long clusters = (long long)gridDim.x * gridDim.y / kPair, cluster = block / kPair;
  const int rank = blockIdx.x % kPair;
  const int high = (M + kPair * kTileM - 1) / (kPair * kTileM), wide = (N + kTileN - 1) / kTileN;
  const long long tiles = (long long)high * wide;
  const int steps = (K + kTileK - 1) / kTileK;
  const bool multiplies = threadIdx.x >= kBlockX - kMultiply;
  const bool mapped = K % 8 == 0 && N % 8 == 0 && K > 0 && ((size_t)A | (size_t)B | (size_t)C) % 16 == 0;
  if (!mapped) {
    if (!multiplies) {
      cutlass::arch::warpgroup_reg_dealloc<56>();
    } else {
      cutlass::arch::warpgroup_reg_alloc<224>();
      for (long long t = block; t < kPair * tiles; t += clusters * kPair) {
        Place tile = tile_at(t / kPair, high, wide);
        tile.m = tile.m * kPair + (int)(t % kPair);
        if (tile.m * kTileM < M) tile_of_any<SharedA, SharedB, Mma>(A, B, C, M, N, K, tile);
      }
    }
    return;
  }
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; s++) {
      filled[s].init(kBlockX - kMultiply);
      // a lane of each warp that multiplies, in both blocks
      free[s].init(kPair * kMultiply / 32);
    }
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();
  if (!multiplies) {
    cutlass::arch::warpgroup_reg_dealloc<56>();
    const int a_row = threadIdx.x / 8, a_k = threadIdx.x % 8 * 8;
    const int b_k = threadIdx.x / 32, b_col = threadIdx.x % 32 * 8;
    // 16-byte pieces of a row stand at their number xor the row's, modulo eight
    bfloat16_t* const to_a = shared_a + a_row * kTileK + ((a_k / 8) ^ (a_row % 8)) * 8;
    bfloat16_t* const to_b = shared_b + b_col / 64 * 64 * kTileK + b_k * 64;
    const int even = ((b_col % 64 / 8) ^ b_k) * 8, odd = ((b_col % 64 / 8) ^ (b_k + 4)) * 8;
    int stage = 0, ready = 0;
    unsigned phase = 0;
    long long issued = 0;
    auto arrive = [&] {
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      filled[ready].arrive();
      if (++ready == kStages) ready = 0;
    };
    for (long long t = cluster; t < tiles; t += clusters) {
      const Place tile = tile_at(t, high, wide);
      const int m0 = tile.m * kTileM, n0 = tile.n * kTileN;
      const bf16* a = A + (size_t)(m0 + a_row) * K + a_k;
      const bf16* b = B + (size_t)b_k * N + n0 + b_col;
      const int here_m = M - m0 - a_row;
      const bool here_n = n0 + b_col < N;
#pragma unroll 1
      for (int k = 0; k < steps; k++) {
        free[stage].wait(phase ^ 1);
        const int here_k = K - k * kTileK;
#pragma unroll
        for (int i = 0; i < kTileM / 16; i++)
          copy8(to_a + stage * kStageA + i * 16 * kTileK, a + (size_t)(16 * i) * K, 16 * i < here_m && a_k < here_k);
#pragma unroll
        for (int i = 0; i < kTileK / 4; i++)
          copy8(to_b + stage * kStageB + i * 4 * 64 + (i % 2 ? odd : even), b + (size_t)(4 * i) * N,
                here_n && b_k + 4 * i < here_k);
        cp_async_fence();
        a += kTileK, b += (size_t)kTileK * N;
        if (++stage == kStages) stage = 0, phase ^= 1;
        // what was asked for before the last two is there
        if (++issued > kAhead) {
          cp_async_wait<kAhead>();
          arrive();
        }
      }
    }
    if (issued > 1) {
      cp_async_wait<1>();
      arrive();
    }
    if (issued > 0) {
      cp_async_wait<0>();
      arrive();
    }
  } else {
    cutlass::arch::warpgroup_reg_alloc<224>();
    const int thread = threadIdx.x - (kBlockX - kMultiply);
    const auto sA = make_tensor(make_smem_ptr(shared_a), SharedA{});
    const auto sB = make_tensor(make_smem_ptr(shared_b), SharedB{});
    Mma mma;
    const auto thread_mma = mma.get_thread_slice(thread);
    const auto tCrA = thread_mma.make_fragment_A(thread_mma.partition_A(sA));
    const auto tCrB = thread_mma.make_fragment_B(thread_mma.partition_B(sB));
    int stage = 0;
    unsigned phase = 0;
    auto release = [&](int at) {
      if (threadIdx.x % 32 == 0) free[at].arrive();
    };
    for (long long t = cluster; t < tiles; t += clusters) {
      const Place tile = tile_at(t, high, wide);
      auto acc = partition_fragment_C(mma, Shape<Int<kTileM>, Int<kTileN>>{});
      int before = 0;
      mma.accumulate_ = GMMA::ScaleOut::Zero;
#pragma unroll 1
      for (int k = 0; k < steps; k++) {
        filled[stage].wait(phase);
        warpgroup_fence_operand(acc);
        warpgroup_arrive();
#pragma unroll
        for (int i = 0; i < size<2>(tCrA); i++) {
          cute::gemm(mma, tCrA(_, _, i, stage), tCrB(_, _, i, stage), acc);
          mma.accumulate_ = GMMA::ScaleOut::One;
        }
        warpgroup_commit_batch();
        // what was issued before has been read
        warpgroup_wait<1>();
        warpgroup_fence_operand(acc);
        if (k > 0) release(before);
        before = stage;
        if (++stage == kStages) stage = 0, phase ^= 1;
      }
      warpgroup_wait<0>();
      warpgroup_fence_operand(acc);
      release(before);
      const int row = (tile.m * kPair + rank) * kTileM + thread / 32 * 16 + thread % 32 / 4;
      store(acc, C, row, tile.n * kTileN, M, N, true);
    }
  }
}

extern "C" void launch(const bf16* A, const bf16* B, bf16* C, int M, int N, int K, cudaStream_t stream) {
  dim3 block(kBlockX, kBlockY),
      grid(min(kBlocks, (M + kPair * kTileM - 1) / (kPair * kTileM) * ((N + kTileN - 1) / kTileN) * kPair));
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
