// SPDX-License-Identifier: Apache-2.0
// Blocks and warps: barriers, shuffles, votes, atomics, shared memory, function pointers, printing; prints what differs.
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kThreads = 192, kBlocks = 5, kCount = kThreads * kBlocks;
__device__ int counter;
__constant__ int offsets[4];
__device__ int doubled(int x) { return 2 * x; }
__device__ int negated(int x) { return -x; }
__device__ int (*table[2])(int) = {doubled, negated};

__global__ void work(const int* in, int* sums, int* lanes, unsigned* votes, int* scanned) {
    extern __shared__ int tile[];
    __shared__ int total;
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) total = 0;
    tile[threadIdx.x] = in[i];
    __syncthreads();
    for (int step = 1; step < blockDim.x; step *= 2) {
        const int other = threadIdx.x >= step ? tile[threadIdx.x - step] : 0;
        __syncthreads();
        tile[threadIdx.x] += other;
        __syncthreads();
    }
    scanned[i] = tile[threadIdx.x];
    int sum = in[i];
    for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (lane == 0) atomicAdd(&total, sum);
    lanes[i] = __shfl_sync(~0u, in[i], (lane * 7 + 3) % 32) + __shfl_xor_sync(~0u, in[i], 5, 8);
    votes[i] = __ballot_sync(~0u, in[i] % 3 == 0) ^ (__all_sync(~0u, in[i] >= 0) ? 1u : 0u);
    if (in[i] % 2) votes[i] += __activemask() == __ballot_sync(__activemask(), true) ? 0x100u : 0u;
    __syncthreads();
    if (threadIdx.x == 0) sums[blockIdx.x] = total + offsets[blockIdx.x % 4];
    if (in[i] % 5 == 0) atomicAdd(&counter, table[in[i] % 2](in[i]));
    if (i == 77) printf("thread %d of block %d has %d and %.2f and %s\n", threadIdx.x, blockIdx.x, in[i], 0.5 * in[i], "words");
}

// Blocks that wait for each other, in whatever order they run.
__global__ void chained(volatile int* flags, int* order) {
    if (threadIdx.x) return;
    const int mine = gridDim.x - 1 - blockIdx.x;
    while (mine && !flags[mine - 1]) {}
    order[mine] = atomicAdd(&counter, 1);
    __threadfence();
    flags[mine] = 1;
}

__global__ void product(const __half* a, const __half* b, float* c) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, __half, row_major> left;
    fragment<matrix_b, 16, 16, 16, __half, col_major> right;
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 1.0f);
    load_matrix_sync(left, a, 16);
    load_matrix_sync(right, b, 16);
    mma_sync(sum, left, right, sum);
    store_matrix_sync(c, sum, 16, mem_row_major);
}

// Blocks that wait for all others.
__global__ void rounds(int* sums, int* to) {
    const auto grid = cooperative_groups::this_grid();
    for (int round = 0; round < 3; ++round) {
        atomicAdd(&sums[round], 1);
        grid.sync();
        if (threadIdx.x == 0) atomicAdd(to, sums[round]);
    }
}

// 16x8 results of 16 halves each, by the instruction itself.
__global__ void tensor(const unsigned* a, const unsigned* b, float* c) {
    const int lane = threadIdx.x, row = lane / 4, pair = lane % 4;
    const unsigned left[4] = {a[row * 8 + pair], a[(row + 8) * 8 + pair], a[row * 8 + pair + 4], a[(row + 8) * 8 + pair + 4]};
    const unsigned right[2] = {b[row * 8 + pair], b[row * 8 + pair + 4]};
    float d[4] = {1, 1, 1, 1};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
    for (int i = 0; i < 4; ++i) c[(row + i / 2 * 8) * 8 + pair * 2 + i % 2] = d[i];
}

int main() {
    std::vector<int> in(kCount), sums(kBlocks), lanes(kCount), scanned(kCount);
    std::vector<unsigned> votes(kCount);
    for (int i = 0; i < kCount; ++i) in[i] = i * 37 % 101;
    int* d;
    cudaMallocManaged(&d, (4 * kCount + kBlocks) * sizeof(int));
    cudaMemcpy(d, in.data(), kCount * sizeof(int), cudaMemcpyDefault);
    const int host_offsets[4] = {10, 20, 30, 40};
    cudaMemcpyToSymbol(offsets, host_offsets, sizeof host_offsets);
    work<<<kBlocks, kThreads, kThreads * sizeof(int)>>>(d, d + 4 * kCount, d + kCount, reinterpret_cast<unsigned*>(d) + 2 * kCount, d + 3 * kCount);
    if (const cudaError_t status = cudaDeviceSynchronize()) return std::printf("%s\n", cudaGetErrorString(status)), 1;
    int wrong = 0, count = 0, held = 0;
    for (int b = 0; b < kBlocks; ++b) {
        int sum = 0;
        for (int t = 0; t < kThreads; ++t) {
            const int i = b * kThreads + t, warp = i - i % 32;
            sum += in[i];
            wrong += d[3 * kCount + i] != sum;
            const int lane = i % 32;
            wrong += d[kCount + i] != in[warp + (lane * 7 + 3) % 32] + in[warp + (lane ^ 5)];
            unsigned vote = 0;
            for (int k = 0; k < 32; ++k) vote |= (in[warp + k] % 3 == 0) << k;
            vote ^= 1u;
            wrong += reinterpret_cast<unsigned*>(d)[2 * kCount + i] != vote + (in[i] % 2 ? 0x100u : 0u);
            if (in[i] % 5 == 0) count += in[i] % 2 ? -in[i] : 2 * in[i];
        }
        wrong += d[4 * kCount + b] != sum + host_offsets[b % 4];
    }
    cudaMemcpyFromSymbol(&held, counter, sizeof held);
    wrong += held != count;
    const int none = 0;
    cudaMemcpyToSymbol(counter, &none, sizeof none);
    cudaMemset(d, 0, 2 * kCount * sizeof(int));
    chained<<<40, 32>>>(d, d + kCount);
    cudaDeviceSynchronize();
    for (int i = 0; i < 40; ++i) wrong += d[kCount + i] != i;
    __half* h;
    float* c;
    cudaMallocManaged(&h, 512 * sizeof(__half));
    cudaMallocManaged(&c, 256 * sizeof(float));
    for (int i = 0; i < 512; ++i) h[i] = __float2half(float(i % 13) - 6);
    product<<<1, 32>>>(h, h + 256, c);
    cudaDeviceSynchronize();
    for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 16; ++column) {
            float sum = 1;
            for (int k = 0; k < 16; ++k) sum += (float((row * 16 + k) % 13) - 6) * (float((256 + column * 16 + k) % 13) - 6);
            wrong += c[row * 16 + column] != sum;
        }
    tensor<<<1, 32>>>(reinterpret_cast<unsigned*>(h), reinterpret_cast<unsigned*>(h + 256), c);
    cudaDeviceSynchronize();
    for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 8; ++column) {
            float sum = 1;
            for (int k = 0; k < 16; ++k) sum += (float((row * 16 + k) % 13) - 6) * (float((256 + column * 16 + k) % 13) - 6);
            wrong += c[row * 8 + column] != sum;
        }
    cudaMemset(d, 0, 4 * sizeof(int));
    int *first = d, *second = d + 3;
    void* given[] = {&first, &second};
    cudaLaunchCooperativeKernel(reinterpret_cast<void*>(rounds), dim3(6), dim3(64), given, 0, nullptr);
    if (const cudaError_t status = cudaDeviceSynchronize()) std::printf("%s\n", cudaGetErrorString(status));
    wrong += d[3] != 3 * 6 * 6 * 64;
    std::printf("%d wrong\n", wrong);
    return wrong != 0;
}
