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

constexpr int kThreads = 128, kKeys = 16;
constexpr int kTile = kThreads * kKeys;  // keys that a block makes
constexpr unsigned kNone = 0xffffffffu;  // after the last of a run: it may be a key, but then either is as good

// Where a key of the result stands in shared memory: a thread writes its own in a row, a warp to all banks.
__device__ __forceinline__ int padded(int i) { return i + i / 32; }

// How many of the first `diagonal` keys of the merged pair come from its first run, by a warp: the cut lies where the first
// run's key is the first that comes after the second's. Each round leaves a part of 33 of what is in question.
__device__ int split(const unsigned* a, int length_a, const unsigned* b, int length_b, int diagonal) {
    const int lane = threadIdx.x % 32;
    int low = max(0, diagonal - length_b), high = min(diagonal, length_a);
    while (low < high) {
        const int apart = max(1, (high - low + 31) / 32);
        const int at = low + lane * apart;
        const bool taken = at < high && a[at] <= b[diagonal - 1 - at];
        const int count = __popc(__ballot_sync(~0u, taken));
        if (count == 0) return low;
        const int found = low + (count - 1) * apart + 1;
        high = min(high, low + count * apart);
        low = found;
    }
    return low;
}

__device__ unsigned merge_rank(const unsigned* in, int i, int start, int middle, int end) {
    const unsigned key = in[i];
    const bool first = i < middle;
    int low = first ? middle : start, high = first ? end : middle;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (in[mid] < key || (!first && in[mid] == key))
            low = mid + 1;
        else
            high = mid;
    }
    return first ? i + (low - middle) : (i - middle) + low;
}

// Each pair of sorted runs of `width` keys becomes one; of equal keys those of the first run come first. A block makes a
// tile of the result: it finds what of both runs belongs to it, and so does each thread in shared memory.
__global__ void __launch_bounds__(kThreads)
    merge_pass(const unsigned* __restrict__ in, unsigned* __restrict__ out, int n, int width) {
    __shared__ unsigned keys[kTile + kTile / 32];
    __shared__ int cuts[2];
    const int base = blockIdx.x * kTile;

    if (2 * width % kTile) {  // a tile would be of several pairs
        for (int i = base + threadIdx.x; i < min(base + kTile, n); i += kThreads) {
            const int start = i / (2 * width) * (2 * width);
            out[merge_rank(in, i, start, min(start + width, n), min(start + 2 * width, n))] = in[i];
        }
        return;
    }

    const int start = base / (2 * width) * (2 * width), middle = min(start + width, n), end = min(start + 2 * width, n);
    const int here = min(kTile, end - base);
    const int warp = threadIdx.x / 32;
    if (warp < 2) {
        const int cut = split(in + start, middle - start, in + middle, end - middle, base - start + warp * here);
        if (threadIdx.x % 32 == 0) cuts[warp] = cut;
    }
    __syncthreads();

    const int from_a = cuts[0], count_a = cuts[1] - from_a, count_b = here - count_a;
    const unsigned* a = in + start + from_a;
    const unsigned* b = in + middle + (base - start - from_a) - count_a;  // where the first run's keys end
#pragma unroll
    for (int k = 0; k < kKeys; k++) {
        const int i = threadIdx.x + k * kThreads;
        if (i < here) keys[i] = i < count_a ? a[i] : b[i];
    }
    __syncthreads();

    const int diagonal = min((int)threadIdx.x * kKeys, here);
    int low = max(0, diagonal - count_b), high = min(diagonal, count_a);
    const unsigned* other = keys + count_a + diagonal - 1;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (keys[mid] <= other[-mid])
            low = mid + 1;
        else
            high = mid;
    }
    int i = low, j = count_a + diagonal - low;
    unsigned key_a = i < count_a ? keys[i] : kNone, key_b = j < here ? keys[j] : kNone;
    unsigned merged[kKeys];
#pragma unroll
    for (int k = 0; k < kKeys; k++) {
        const bool first = key_a <= key_b;
        merged[k] = first ? key_a : key_b;
        const int read = first ? ++i : ++j;
        const unsigned key = read < (first ? count_a : here) ? keys[read] : kNone;
        key_a = first ? key : key_a;
        key_b = first ? key_b : key;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kKeys; k++) keys[padded((int)threadIdx.x * kKeys + k)] = merged[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kKeys; k++) {
        const int at = threadIdx.x + k * kThreads;
        if (at < here) out[base + at] = keys[padded(at)];
    }
}

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 24000000;

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
        merge_pass<<<(n + kTile - 1) / kTile, kThreads>>>(d_keys, d_other, n, width);
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
