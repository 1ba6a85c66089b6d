// SPDX-License-Identifier: Apache-2.0
// The second product of attention: probabilities times values, bfloat16 in and out, for every head of a batch.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

typedef __nv_bfloat16 bf16;

constexpr int HEAD_DIM = 64;

constexpr int ROWS = 128, DEPTH = 64, STAGES = 3, PITCH = DEPTH + 8;
static_assert(DEPTH == HEAD_DIM, "one pitch for both tiles");
constexpr int STAGE_SIZE = (ROWS + DEPTH) * PITCH;
constexpr int SHARED_BYTES = STAGES * STAGE_SIZE * (int)sizeof(bf16);

// Eight numbers from global to shared memory, asynchronously; zeros if there are none.
__device__ __forceinline__ void copy_eight(bf16* to, const bf16* from, bool there) {
  unsigned int address = (unsigned int)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(there ? 16 : 0) : "memory");
}

__device__ __forceinline__ void load_stage(bf16* stage, const bf16* p, const bf16* v, int q0, int k0, int queries,
                                           int keys) {
  bf16* v_tile = stage + ROWS * PITCH;
#pragma unroll
  for (int i = 0; i < ROWS * DEPTH / 8 / 128; i++) {
    int chunk = threadIdx.x + i * 128, row = chunk / (DEPTH / 8), k = chunk % (DEPTH / 8) * 8;
    bf16* to = stage + row * PITCH + k;
    if (keys % 8 == 0) {
      bool there = q0 + row < queries && k0 + k < keys;
      copy_eight(to, there ? p + (size_t)(q0 + row) * keys + k0 + k : p, there);
    } else {
#pragma unroll
      for (int j = 0; j < 8; j++)
        to[j] = q0 + row < queries && k0 + k + j < keys ? p[(size_t)(q0 + row) * keys + k0 + k + j] : __float2bfloat16(0.0f);
    }
  }
#pragma unroll
  for (int i = 0; i < DEPTH * HEAD_DIM / 8 / 128; i++) {
    int chunk = threadIdx.x + i * 128, k = chunk / (HEAD_DIM / 8), d = chunk % (HEAD_DIM / 8) * 8;
    bool there = k0 + k < keys;
    copy_eight(v_tile + k * PITCH + d, there ? v + (size_t)(k0 + k) * HEAD_DIM + d : v, there);
  }
}

__device__ __forceinline__ void load_a(unsigned int (&r)[4], const bf16* from) {
  unsigned int address = (unsigned int)__cvta_generic_to_shared(from);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void load_b(unsigned int (&r)[4], const bf16* from) {
  unsigned int address = (unsigned int)__cvta_generic_to_shared(from);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// probs [heads][queries][keys], values [heads][keys][HEAD_DIM], out [heads][queries][HEAD_DIM]
// 128 queries of a head a block, four warps of 32 on the tensor cores, the keys in three stages of 64.
__global__ void __launch_bounds__(128)
    attention_pv(const bf16* __restrict__ probs, const bf16* __restrict__ values, bf16* __restrict__ out, int queries,
                 int keys) {
  extern __shared__ __align__(128) bf16 shared[];
  int q0 = blockIdx.x * ROWS, head = blockIdx.y;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const bf16* p = probs + (size_t)head * queries * keys;
  const bf16* v = values + (size_t)head * keys * HEAD_DIM;
  float acc[2][HEAD_DIM / 8][4] = {};

  int steps = (keys + DEPTH - 1) / DEPTH;
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) {
    if (s < steps) load_stage(shared + s * STAGE_SIZE, p, v, q0, s * DEPTH, queries, keys);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  for (int s = 0; s < steps; s++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    int ahead = s + STAGES - 1;
    if (ahead < steps) load_stage(shared + ahead % STAGES * STAGE_SIZE, p, v, q0, ahead * DEPTH, queries, keys);
    asm volatile("cp.async.commit_group;" ::: "memory");

    const bf16* stage = shared + s % STAGES * STAGE_SIZE;
    const bf16* p_tile = stage + (warp * 32 + lane % 16) * PITCH + lane / 16 * 8;
    const bf16* v_tile = stage + (ROWS + lane % 16) * PITCH + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
      unsigned int a[2][4], b[4];
      load_a(a[0], p_tile + k);
      load_a(a[1], p_tile + 16 * PITCH + k);
#pragma unroll
      for (int j = 0; j < HEAD_DIM / 8; j += 2) {
        load_b(b, v_tile + k * PITCH + j * 8);
        multiply(acc[0][j], a[0], b[0], b[1]);
        multiply(acc[0][j + 1], a[0], b[2], b[3]);
        multiply(acc[1][j], a[1], b[0], b[1]);
        multiply(acc[1][j + 1], a[1], b[2], b[3]);
      }
    }
  }

  bf16* to = out + (size_t)head * queries * HEAD_DIM;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    int q = q0 + warp * 32 + i * 8 + lane / 4;
    if (q < queries) {
#pragma unroll
      for (int j = 0; j < HEAD_DIM / 8; j++)
        *reinterpret_cast<__nv_bfloat162*>(to + (size_t)q * HEAD_DIM + j * 8 + lane % 4 * 2) =
            __floats2bfloat162_rn(acc[i / 2][j][i % 2 * 2], acc[i / 2][j][i % 2 * 2 + 1]);
    }
  }
}

int main(int argc, char** argv) {
  int heads = argc > 1 ? atoi(argv[1]) : 64;  // batch * heads
  int queries = argc > 2 ? atoi(argv[2]) : 1024;
  int keys = argc > 3 ? atoi(argv[3]) : queries;

  std::vector<bf16> probs((size_t)heads * queries * keys), values((size_t)heads * keys * HEAD_DIM);
  std::vector<bf16> out((size_t)heads * queries * HEAD_DIM);
  // Not softmaxed, but each row sums to about one.
  bf16 level[64];
  for (int i = 0; i < 64; i++) level[i] = __float2bfloat16((i + 0.5f) / 32.0f / keys);
  for (size_t i = 0; i < probs.size(); i++) probs[i] = level[((unsigned int)i * 2246822519u) >> 26];
  for (size_t i = 0; i < values.size(); i++) values[i] = __float2bfloat16((float)(i * 7919 % 257) / 64.0f - 2.0f);

  bf16 *d_probs, *d_values, *d_out;
  cudaMalloc(&d_probs, probs.size() * sizeof(bf16));
  cudaMalloc(&d_values, values.size() * sizeof(bf16));
  cudaMalloc(&d_out, out.size() * sizeof(bf16));
  cudaMemcpy(d_probs, probs.data(), probs.size() * sizeof(bf16), cudaMemcpyHostToDevice);
  cudaMemcpy(d_values, values.data(), values.size() * sizeof(bf16), cudaMemcpyHostToDevice);

  dim3 block(128);
  dim3 grid((queries + ROWS - 1) / ROWS, heads);
  cudaFuncSetAttribute(attention_pv, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
  for (int i = 0; i < 15; i++) attention_pv<<<grid, block, SHARED_BYTES>>>(d_probs, d_values, d_out, queries, keys);
  cudaMemcpy(out.data(), d_out, out.size() * sizeof(bf16), cudaMemcpyDeviceToHost);

  double worst = 0;
  for (int row = 0; row < heads * queries; row += 1 + heads * queries / 97) {
    int head = row / queries;
    for (int d = 0; d < HEAD_DIM; d++) {
      double want = 0;
      for (int k = 0; k < keys; k++)
        want += (double)__bfloat162float(probs[(size_t)row * keys + k]) *
                __bfloat162float(values[((size_t)head * keys + k) * HEAD_DIM + d]);
      worst = std::fmax(worst, std::fabs(want - __bfloat162float(out[(size_t)row * HEAD_DIM + d])));
    }
  }
  printf("%s\n", worst < 1e-2 ? "attention output matches" : "attention output differs");
  return worst < 1e-2 ? 0 : 1;
}
