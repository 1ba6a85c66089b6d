// SPDX-License-Identifier: Apache-2.0
// Merge sort of keys: runs of 1024 sorted in shared memory, then passes that merge neighbouring runs by ranks.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_TRY(x)                                                               \
    do {                                                                          \
        cudaError_t status = (x);                                                 \
        if (status != cudaSuccess) {                                              \
            fprintf(stderr, "%d: %s\n", __LINE__, cudaGetErrorString(status));    \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

#define RUN 1024

// Bitonic sort of one run by RUN / 2 threads.
__global__ void sort_runs(unsigned* keys, int n) {
    __shared__ unsigned run[RUN];
    int base = blockIdx.x * RUN;
    for (int i = threadIdx.x; i < RUN; i += blockDim.x) run[i] = base + i < n ? keys[base + i] : 0xffffffffu;
    for (int size = 2; size <= RUN; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            int i = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
            unsigned a = run[i], b = run[i + stride];
            bool up = (i & size) == 0;
            if ((a > b) == up) {
                run[i] = b;
                run[i + stride] = a;
            }
        }
    __syncthreads();
    for (int i = threadIdx.x; i < RUN; i += blockDim.x)
        if (base + i < n) keys[base + i] = run[i];
}

// Each pair of sorted runs of `width` keys becomes one: the place of a key is its place in its run, and how many keys of
// the other run come before it; of equal keys those of the first run.
__global__ void merge_pass(const unsigned* in, unsigned* out, int n, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;

    int start = i / (2 * width) * (2 * width);
    int middle = min(start + width, n);
    int end = min(start + 2 * width, n);
    unsigned key = in[i];
    bool first = i < middle;

    int low = first ? middle : start;
    int high = first ? end : middle;
    while (low < high) {
        int mid = (low + high) / 2;
        if (in[mid] < key || (!first && in[mid] == key))
            low = mid + 1;
        else
            high = mid;
    }
    int place = first ? i + (low - middle) : (i - middle) + low;
    out[place] = key;
}

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 24000000;
    int block = argc > 2 ? atoi(argv[2]) : 256;

    std::vector<unsigned> keys(n), sorted(n);
    unsigned long long s = 42, sum = 0;
    for (unsigned& k : keys) {
        s = s * 6364136223846793005ull + 1442695040888963407ull;
        k = (unsigned)(s >> 33) % 1000000007u;
        sum += k;
    }

    unsigned *d_keys, *d_other;
    CUDA_TRY(cudaMalloc(&d_keys, n * sizeof(unsigned)));
    CUDA_TRY(cudaMalloc(&d_other, n * sizeof(unsigned)));
    CUDA_TRY(cudaMemcpy(d_keys, keys.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));

    cudaEvent_t start, stop;
    CUDA_TRY(cudaEventCreate(&start));
    CUDA_TRY(cudaEventCreate(&stop));
    CUDA_TRY(cudaEventRecord(start));
    sort_runs<<<(n + RUN - 1) / RUN, RUN / 2>>>(d_keys, n);
    CUDA_TRY(cudaGetLastError());
    for (int width = RUN; width < n; width *= 2) {
        merge_pass<<<(n + block - 1) / block, block>>>(d_keys, d_other, n, width);
        CUDA_TRY(cudaGetLastError());
        std::swap(d_keys, d_other);
    }
    CUDA_TRY(cudaEventRecord(stop));
    CUDA_TRY(cudaMemcpy(sorted.data(), d_keys, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
    float ms = 0;
    CUDA_TRY(cudaEventElapsedTime(&ms, start, stop));
    fprintf(stderr, "%.2f ms, %.1f million keys a second\n", ms, n * 1e-3 / ms);

    // in order, the same in all, and of a few thousand keys the same number of each
    int wrong = 0;
    unsigned long long sorted_sum = sorted[0];
    for (int i = 1; i < n; i++) {
        wrong += sorted[i] < sorted[i - 1];
        sorted_sum += sorted[i];
    }
    wrong += sorted_sum != sum;
    for (int i = 0; i < n; i += 1 + n / 5000) wrong += !std::binary_search(sorted.begin(), sorted.end(), keys[i]);
    CUDA_TRY(cudaFree(d_keys));
    CUDA_TRY(cudaFree(d_other));
    printf("least %u, median %u, greatest %u\n%s\n", sorted[0], sorted[n / 2], sorted[n - 1], wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
