// SPDX-License-Identifier: Apache-2.0
// SELECT store, SUM(amount), COUNT(*) FROM sales GROUP BY store: a thread a row.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

inline void check(cudaError_t e) {
    if (e != cudaSuccess) {
        fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e));
        exit(2);
    }
}

struct Sales {
    std::vector<int> store;
    std::vector<unsigned> amount;  // in cents
};

Sales make_sales(int rows, int stores) {
    Sales sales;
    sales.store.resize(rows);
    sales.amount.resize(rows);
    unsigned s = 19;
    for (int i = 0; i < rows; i++) {
        s = s * 1664525u + 1013904223u;
        sales.store[i] = (int)((unsigned long long)s * stores >> 32);
        sales.amount[i] = i % 1000 == 0 ? 100000000u : (s & 0xffff) + 99;
    }
    return sales;
}

constexpr int kGroups = 4096;  // that a block can sum for itself

// Roof: the atomic operations of shared memory, two a row (at 1000 groups 32 of them meet three to four deep in a bank);
// DRAM, 8 bytes a row, is close behind. A block sums for itself, in words of 32 bits whose overflows are counted, and adds
// to the totals once.
__global__ void __launch_bounds__(1024, 2) group_by_sum(const int* __restrict__ store, const unsigned* __restrict__ amount,
                                                        unsigned long long* __restrict__ sum, unsigned* __restrict__ count,
                                                        int rows, int stores) {
    __shared__ unsigned low[kGroups], overflows[kGroups], seen[kGroups];
    const int first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    if (stores > kGroups) {
        for (long long i = first; i < rows; i += step) {
            atomicAdd(&sum[store[i]], (unsigned long long)amount[i]);
            atomicAdd(&count[store[i]], 1u);
        }
        return;
    }

    for (int g = threadIdx.x; g < stores; g += blockDim.x) low[g] = overflows[g] = seen[g] = 0;
    __syncthreads();
    auto add = [&](int group, unsigned value) {
        if (atomicAdd(&low[group], value) > ~value) atomicAdd(&overflows[group], 1u);
        atomicAdd(&seen[group], 1u);
    };
    const int fours = rows / 4;
    int i = first;
    for (; i < fours - step; i += 2 * step) {
        const int4 g = __ldcs((const int4*)store + i), h = __ldcs((const int4*)store + i + step);
        const uint4 v = __ldcs((const uint4*)amount + i), w = __ldcs((const uint4*)amount + i + step);
        add(g.x, v.x);
        add(g.y, v.y);
        add(g.z, v.z);
        add(g.w, v.w);
        add(h.x, w.x);
        add(h.y, w.y);
        add(h.z, w.z);
        add(h.w, w.w);
    }
    if (i < fours) {
        const int4 g = __ldcs((const int4*)store + i);
        const uint4 v = __ldcs((const uint4*)amount + i);
        add(g.x, v.x);
        add(g.y, v.y);
        add(g.z, v.z);
        add(g.w, v.w);
    }
    if (first < rows % 4) add(store[fours * 4 + first], amount[fours * 4 + first]);
    __syncthreads();

    for (int g = threadIdx.x; g < stores; g += blockDim.x)
        if (seen[g]) {
            atomicAdd(&sum[g], (unsigned long long)overflows[g] << 32 | low[g]);
            atomicAdd(&count[g], seen[g]);
        }
}

int main(int argc, char** argv) {
    int rows = argc > 1 ? atoi(argv[1]) : 1 << 24;
    int stores = argc > 2 ? atoi(argv[2]) : 1000;
    int block = argc > 3 ? atoi(argv[3]) : 256;

    Sales sales = make_sales(rows, stores);
    int* d_store;
    unsigned *d_amount, *d_count;
    unsigned long long* d_sum;
    check(cudaMalloc(&d_store, rows * sizeof(int)));
    check(cudaMalloc(&d_amount, rows * sizeof(unsigned)));
    check(cudaMalloc(&d_sum, stores * sizeof(unsigned long long)));
    check(cudaMalloc(&d_count, stores * sizeof(unsigned)));
    check(cudaMemcpy(d_store, sales.store.data(), rows * sizeof(int), cudaMemcpyHostToDevice));
    check(cudaMemcpy(d_amount, sales.amount.data(), rows * sizeof(unsigned), cudaMemcpyHostToDevice));

    for (int query = 0; query < 3; query++) {
        check(cudaMemset(d_sum, 0, stores * sizeof(unsigned long long)));
        check(cudaMemset(d_count, 0, stores * sizeof(unsigned)));
        group_by_sum<<<std::min(264, rows / 4096 + 1), 1024>>>(d_store, d_amount, d_sum, d_count, rows, stores);
        check(cudaGetLastError());
    }
    std::vector<unsigned long long> sum(stores), want_sum(stores);
    std::vector<unsigned> count(stores), want_count(stores);
    check(cudaMemcpy(sum.data(), d_sum, stores * sizeof(unsigned long long), cudaMemcpyDeviceToHost));
    check(cudaMemcpy(count.data(), d_count, stores * sizeof(unsigned), cudaMemcpyDeviceToHost));

    for (int i = 0; i < rows; i++) {
        want_sum[sales.store[i]] += sales.amount[i];
        want_count[sales.store[i]]++;
    }
    bool ok = sum == want_sum && count == want_count;
    check(cudaFree(d_store));
    check(cudaFree(d_amount));
    check(cudaFree(d_sum));
    check(cudaFree(d_count));
    printf("%s\n", ok ? "ok" : "wrong");
    return ok ? 0 : 1;
}
