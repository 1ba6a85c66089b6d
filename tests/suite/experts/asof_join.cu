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

constexpr int kThreads = 256;
constexpr int kEach = 4;                     // trades of a thread, one after the other in time
constexpr int kTrades = kThreads * kEach;    // of a block
constexpr int kHeld = 2048;                  // quotes that a block holds in shared memory

// How many quotes are not later than `time`, found by a whole warp: 32 probes at a time.
__device__ __forceinline__ int count_until(const Quote* quotes, int num_quotes, long long time) {
    const int lane = threadIdx.x % 32;
    int low = 0, high = num_quotes;
    while (high - low > 32) {
        const long long span = high - low;
        const int probe = low + (int)(span * (lane + 1) / 33);
        const int before = __popc(__ballot_sync(~0u, quotes[probe].time <= time));
        if (before < 32) high = low + (int)(span * (before + 1) / 33);
        if (before > 0) low += (int)(span * before / 33) + 1;
    }
    const bool not_later = low + lane < high && quotes[low + lane].time <= time;
    return low + __popc(__ballot_sync(~0u, not_later));
}

// The quotes that a block's trades can meet stand side by side: they are found for its first and last trade, read once,
// and searched in shared memory; of a thread's trades only the first is searched for.
__global__ void __launch_bounds__(kThreads)
    asof_join(const Quote* __restrict__ quotes, int num_quotes, const long long* __restrict__ times,
              const float* __restrict__ prices, float* __restrict__ cost, int num_trades) {
    __shared__ long long held_times[kHeld];
    __shared__ float held_mids[kHeld];
    __shared__ int bounds[2];

    const int first = blockIdx.x * kTrades;
    const int i = first + kEach * threadIdx.x;
    const bool whole = i + kEach <= num_trades;
    longlong2 early = {}, late = {};
    float4 price = {};
    if (whole) {
        early = __ldcs((const longlong2*)(times + i));
        late = __ldcs((const longlong2*)(times + i + 2));
        price = __ldcs((const float4*)(prices + i));
    }
    if (threadIdx.x < 64) {
        const int last = min(first + kTrades, num_trades) - 1;
        const int found = count_until(quotes, num_quotes, times[threadIdx.x < 32 ? first : last]);
        if (threadIdx.x % 32 == 0) bounds[threadIdx.x / 32] = found;
    }
    __syncthreads();
    const int begin = max(bounds[0] - 1, 0), count = bounds[1] - begin;
    if (count <= kHeld) {
        for (int q = threadIdx.x; q < count; q += kThreads) {
            const int4 raw = __ldcs((const int4*)(quotes + begin + q));
            held_times[q] = (long long)((unsigned long long)(unsigned)raw.y << 32 | (unsigned)raw.x);
            held_mids[q] = 0.5f * (__int_as_float(raw.z) + __int_as_float(raw.w));
        }
    }
    __syncthreads();
    if (i >= num_trades) return;

    const int mine = min(kEach, num_trades - i);
    const long long time[kEach] = {early.x, early.y, late.x, late.y};
    const float paid[kEach] = {price.x, price.y, price.z, price.w};
    float result[kEach];
    int low = 0;
#pragma unroll
    for (int k = 0; k < kEach; k++) {
        if (k >= mine) break;
        const long long now = whole ? time[k] : times[i + k];
        const float price_now = whole ? paid[k] : prices[i + k];
        float mid = 0.0f;
        if (count <= kHeld) {
            if (k == 0) {
                int high = count;
                while (low < high) {
                    const int middle = (low + high) / 2;
                    if (held_times[middle] <= now)
                        low = middle + 1;
                    else
                        high = middle;
                }
            } else {
                while (low < count && held_times[low] <= now) low++;
            }
            if (low > 0) mid = held_mids[low - 1];
        } else {
            int high = count;
            while (low < high) {
                const int middle = low + (high - low) / 2;
                if (quotes[begin + middle].time <= now)
                    low = middle + 1;
                else
                    high = middle;
            }
            if (low > 0) mid = 0.5f * (quotes[begin + low - 1].bid + quotes[begin + low - 1].ask);
        }
        result[k] = low > 0 ? price_now - mid : 0.0f;
        if (!whole) cost[i + k] = result[k];
    }
    if (whole) __stcs((float4*)(cost + i), make_float4(result[0], result[1], result[2], result[3]));
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
        asof_join<<<(num_trades + kTrades - 1) / kTrades, kThreads>>>(d_quotes, num_quotes, d_times, d_prices, d_cost, num_trades);
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
