// SPDX-License-Identifier: Apache-2.0
// One thing that a card forbids, by its number; prints what the runtime says of it.
#include <cuda_runtime.h>

#include <cassert>
#include <cstdio>
#include <cstdlib>

__device__ volatile int variable = 7;

__global__ void faulty(int how, int* at, int* host) {
    __shared__ int tile[32];
    switch (how) {
        case 1: at[1 << 28] = 1; break;
        case 2: *host = 1; break;
        case 3: *reinterpret_cast<volatile int*>(reinterpret_cast<char*>(at) + 2) = 1; break;
        case 4: assert(at == nullptr); break;
        case 5: __trap(); break;
        case 6: tile[how * 100000 + threadIdx.x] = 1; at[0] = tile[at[1]]; break;
        case 7: at[-(1 << 26)] = 1; break;
        case 8: for (volatile int go = 1; go;) {} break;
        case 9: *reinterpret_cast<int*>(8) = 1; break;
        // past its allocation, of which nobody is told, but not into what no allocation lies beside
        case 10:
            for (int i = threadIdx.x; i < 65536; i += 32) at[i] = 1;
            assert(variable == 7);
            break;
        default: at[threadIdx.x] = 1;
    }
}

int main(int argc, char** argv) {
    int *at, *host = static_cast<int*>(std::malloc(64)), got = 0;
    cudaMalloc(&at, 4096);
    faulty<<<1, 32>>>(argc > 1 ? std::atoi(argv[1]) : 0, at, host);
    const cudaError_t first = cudaDeviceSynchronize();
    const cudaError_t second = cudaMemcpy(&got, at, sizeof got, cudaMemcpyDeviceToHost);
    std::printf("%s, %s\n", cudaGetErrorString(first), cudaGetErrorString(second));
    // a lost context stays lost; a number of threads that no block can have loses none
    faulty<<<1, 2048>>>(0, at, host);
    std::printf("%s\n", cudaGetErrorString(cudaGetLastError()));
}
