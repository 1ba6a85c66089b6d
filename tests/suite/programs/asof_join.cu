// SPDX-License-Identifier: Apache-2.0
// An as-of join of two tables that are sorted by time: each trade with the last quote before it, for what it cost
// against the middle of bid and ask.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t err = (call);                                                        \
        if (err != cudaSuccess) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err)); \
            exit(2);                                                                     \
        }                                                                                \
    } while (0)

struct Quote {
    long long time;  // in nanoseconds
    float bid, ask;
};

__host__ __device__ inline unsigned mix(unsigned i) {
    i = (i ^ (i >> 16)) * 0x7feb352du;
    i = (i ^ (i >> 15)) * 0x846ca68bu;
    return i ^ (i >> 16);
}

// quotes come every 1000 ns or so, trades every 1200 ns; the first trades come before any quote
__host__ __device__ inline Quote quote_at(int i) {
    float mid = 100.0f + (mix(i) >> 20) * (1.0f / 1024);
    float half_spread = (1 + mix(i * 3 + 1) % 8) * (1.0f / 256);
    return {5000 + 1000ll * i + mix(i + 0x1234567) % 1000, mid - half_spread, mid + half_spread};
}
__host__ __device__ inline long long trade_time(int i) { return 1200ll * i + mix(i + 0x7654321) % 1200; }
__host__ __device__ inline float trade_price(int i) { return 100.0f + (mix(i * 5 + 2) >> 20) * (1.0f / 1024); }

__global__ void make_tables(Quote* quotes, int num_quotes, long long* times, float* prices, int num_trades) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < num_quotes) quotes[i] = quote_at(i);
    if (i < num_trades) {
        times[i] = trade_time(i);
        prices[i] = trade_price(i);
    }
}

__global__ void asof_join(const Quote* quotes, int num_quotes, const long long* times, const float* prices, float* cost,
                          int num_trades) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num_trades) return;

    // how many quotes are not later than the trade
    long long time = times[i];
    int low = 0, high = num_quotes;
    while (low < high) {
        int middle = (low + high) / 2;
        if (quotes[middle].time <= time)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) {
        cost[i] = 0.0f;
    } else {
        Quote q = quotes[low - 1];
        cost[i] = prices[i] - 0.5f * (q.bid + q.ask);
    }
}

int main(int argc, char** argv) {
    int num_trades = argc > 1 ? atoi(argv[1]) : 10000000;
    int num_quotes = argc > 2 ? atoi(argv[2]) : 12000000;
    int block = argc > 3 ? atoi(argv[3]) : 256;

    Quote* d_quotes;
    long long* d_times;
    float *d_prices, *d_cost;
    CHECK(cudaMalloc(&d_quotes, num_quotes * sizeof(Quote)));
    CHECK(cudaMalloc(&d_times, num_trades * sizeof(long long)));
    CHECK(cudaMalloc(&d_prices, num_trades * sizeof(float)));
    CHECK(cudaMalloc(&d_cost, num_trades * sizeof(float)));
    int most = num_quotes > num_trades ? num_quotes : num_trades;
    make_tables<<<(most + block - 1) / block, block>>>(d_quotes, num_quotes, d_times, d_prices, num_trades);
    CHECK(cudaGetLastError());

    for (int run = 0; run < 3; run++) {
        asof_join<<<(num_trades + block - 1) / block, block>>>(d_quotes, num_quotes, d_times, d_prices, d_cost, num_trades);
        CHECK(cudaGetLastError());
    }
    float* cost = (float*)malloc(num_trades * sizeof(float));
    CHECK(cudaMemcpy(cost, d_cost, num_trades * sizeof(float), cudaMemcpyDeviceToHost));

    int wrong = 0;
    double sum = 0;
    for (int i = 0; i < num_trades; i += num_trades > 10000 ? 499 : 1) {
        long long time = trade_time(i);
        long long guess = (time - 5000) / 1000;  // the quote of that microsecond, or the one before
        int q = guess < num_quotes ? (int)guess : num_quotes - 1;
        while (q >= 0 && quote_at(q).time > time) q--;
        float want = 0.0f;
        if (time >= 5000 && q >= 0) want = trade_price(i) - 0.5f * (quote_at(q).bid + quote_at(q).ask);
        wrong += std::fabs(want - cost[i]) > 1e-5f;
        sum += cost[i];
    }
    free(cost);
    CHECK(cudaFree(d_quotes));
    CHECK(cudaFree(d_times));
    CHECK(cudaFree(d_prices));
    CHECK(cudaFree(d_cost));
    printf("sum of the sampled costs %.4f\n%s\n", sum, wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
