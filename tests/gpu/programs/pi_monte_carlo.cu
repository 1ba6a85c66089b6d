// Random points in a square; hits are counted with an integer atomic, so that the sum repeats exactly.
#include <cstdio>

__device__ unsigned next(unsigned &state) {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^= state << 5;
}

__global__ void throw_darts(unsigned long long *hits, int rounds, unsigned seed) {
    unsigned state = seed + 2654435761u * (blockIdx.x * blockDim.x + threadIdx.x + 1), mine = 0;
    for (int i = 0; i < rounds; ++i) {
        const float x = next(state) * 0x1p-32f, y = next(state) * 0x1p-32f;
        mine += x * x + y * y < 1.0f;
    }
    for (int step = 16; step; step /= 2) mine += __shfl_down_sync(~0u, mine, step);
    if (threadIdx.x % 32 == 0) atomicAdd(hits, mine);
}

int main() {
    const int blocks = 1024, threads = 256, rounds = 512;
    unsigned long long *hits, total;
    cudaMalloc(&hits, sizeof *hits);
    cudaMemset(hits, 0, sizeof *hits);
    for (unsigned batch = 0; batch < 4; ++batch) throw_darts<<<blocks, threads>>>(hits, rounds, batch + 1);
    if (cudaMemcpy(&total, hits, sizeof total, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("pi is about %.4f\n", 4.0 * total / (4.0 * blocks * threads * rounds));
    return 0;
}
