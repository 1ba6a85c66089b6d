// SPDX-License-Identifier: Apache-2.0
// SELECT store, SUM(amount), COUNT(*) FROM sales GROUP BY store: a thread a row.
#include <cuda_runtime.h>
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

__global__ void group_by_sum(const int* store, const unsigned* amount, unsigned long long* sum, unsigned* count, int rows,
                             int stores) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) {
        atomicAdd(&sum[store[i]], (unsigned long long)amount[i]);
        atomicAdd(&count[store[i]], 1u);
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
        group_by_sum<<<(rows + block - 1) / block, block>>>(d_store, d_amount, d_sum, d_count, rows, stores);
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
