// SPDX-License-Identifier: Apache-2.0
// A Viterbi decoder of the convolutional code of rate 1/2 with generators 171 and 133 (octal): a block a frame, a thread a
// state of the encoder.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_CHECK(x)                                                                  \
    do {                                                                               \
        cudaError_t e = (x);                                                           \
        if (e != cudaSuccess) {                                                        \
            fprintf(stderr, "%s, line %d: %s\n", #x, __LINE__, cudaGetErrorString(e)); \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

constexpr int MEMORY = 6;  // bits that the encoder remembers
constexpr int STATES = 1 << MEMORY;

__host__ __device__ inline int parity(unsigned v) {
    v ^= v >> 4;
    v ^= v >> 2;
    return (v ^ v >> 1) & 1;
}

// The two code bits when `bit` comes in state `state`, as 2 * first + second. The new bit is the lowest.
__host__ __device__ inline int code_bits(int state, int bit) {
    unsigned window = state << 1 | bit;
    return 2 * parity(window & 0171) + parity(window & 0133);
}

constexpr int kWarps = 4;           // of a block, a frame each
constexpr int kMostShared = 1024;   // steps of a frame whose decisions stand in shared memory
constexpr int kUnreached = 4096;    // more than the metrics of the first steps differ by

// A warp decodes a frame. Lane i has states i and i + 32, from which one comes to 2 i and 2 i + 1; the code's generators
// both take the newest and the oldest bit, so that the four ways cost x, -x, -x and x. Metrics are 16 bits that wrap:
// they never differ by 2^15. A step's decisions are two ballots, for even and for odd states.
__device__ __forceinline__ void decode_frame(const signed char* in, uint2* decisions, unsigned char* bits, int steps) {
    const int lane = threadIdx.x % 32;
    const int code = code_bits(lane, 0);
    const int first_sign = code & 2 ? -1 : 1, second_sign = code & 1 ? -1 : 1;
    const int half = 16 * (lane & 1);

    unsigned low = lane == 0 ? 0 : kUnreached, high = kUnreached;  // only 16 bits of each count
    for (int t = 0; t < steps; t += 32) {
        const int count = min(32, steps - t);
        const int loaded = lane < count ? *(const short*)(in + 2 * (t + lane)) : 0;
#pragma unroll 4
        for (int k = 0; k < count; k++) {
            const int symbols = __shfl_sync(~0u, loaded, k);
            const int x = first_sign * (signed char)symbols + second_sign * (symbols >> 8);
            const unsigned even0 = low + x, even1 = high - x, odd0 = low - x, odd1 = high + x;
            const bool even_second = (even1 - even0) & 0x8000, odd_second = (odd1 - odd0) & 0x8000;
            const unsigned even_ballot = __ballot_sync(~0u, even_second), odd_ballot = __ballot_sync(~0u, odd_second);
            const unsigned both = __byte_perm(even_second ? even1 : even0, odd_second ? odd1 : odd0, 0x5410);
            low = __shfl_sync(~0u, both, lane / 2) >> half;
            high = __shfl_sync(~0u, both, 16 + lane / 2) >> half;
            if (lane == 0) decisions[t + k] = make_uint2(even_ballot, odd_ballot);
        }
    }
    __syncwarp();

    // back from state 0, all lanes the same; 32 bits are written at once
    int s = 0;
    for (int t = (steps - 1) / 32 * 32; t >= 0; t -= 32) {
        const int count = min(32, steps - t);
        unsigned decoded = 0;
#pragma unroll 4
        for (int k = count - 1; k >= 0; k--) {
            const uint2 both = decisions[t + k];
            decoded = decoded << 1 | (s & 1);
            s = s >> 1 | ((s & 1 ? both.y : both.x) >> (s >> 1) & 1) << (MEMORY - 1);
        }
        if (lane < count) bits[t + lane] = decoded >> lane & 1;
    }
}

// symbols: (frames, steps, 2), positive for a likely 1; decided: for frames that are too long, as many bytes as they have
// states; bits: (frames, steps)
__global__ void __launch_bounds__(32 * kWarps)
    viterbi_decode(const signed char* __restrict__ symbols, unsigned char* __restrict__ decided,
                   unsigned char* __restrict__ bits, int steps, int frames) {
    extern __shared__ uint2 shared[];
    const int warp = threadIdx.x / 32;
    const int frame = blockIdx.x * kWarps + warp;
    if (frame >= frames) return;
    const signed char* in = symbols + (size_t)frame * steps * 2;
    unsigned char* out = bits + (size_t)frame * steps;
    if (steps <= kMostShared)
        decode_frame(in, shared + warp * steps, out, steps);
    else
        decode_frame(in, (uint2*)(decided + (size_t)frame * steps * STATES), out, steps);
}

__global__ void count_errors(const unsigned char* bits, const unsigned char* sent, int* errors, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && bits[i] != sent[i]) atomicAdd(errors, 1);
}

int main(int argc, char** argv) {
    int frames = argc > 1 ? atoi(argv[1]) : 8192;
    int message = argc > 2 ? atoi(argv[2]) : 250;
    int noise = argc > 3 ? atoi(argv[3]) : 45;
    int steps = message + MEMORY;
    int n = frames * steps;

    std::vector<unsigned char> sent(n);
    std::vector<signed char> symbols((size_t)n * 2);
    unsigned char* p_sent = sent.data();
    signed char* p_symbols = symbols.data();
    signed char code[STATES][2];
    for (int s = 0; s < STATES; s++)
        for (int b = 0; b < 2; b++) code[s][b] = code_bits(s, b);
    unsigned r = 19;
    for (int f = 0, i = 0; f < frames; f++) {
        int s = 0;
        for (int t = 0; t < steps; t++, i++) {
            r = r * 1664525u + 1013904223u;
            int bit = t < message ? r >> 31 : 0;  // and then zeros, until the encoder has forgotten
            int c = code[s][bit];
            // noise of three uniform parts
            int first = (c & 2 ? 32 : -32) + (int)((r & 63) + (r >> 6 & 63) + (r >> 12 & 63) - 94) * noise / 64;
            r = r * 1664525u + 1013904223u;
            int second = (c & 1 ? 32 : -32) + (int)((r >> 8 & 63) + (r >> 14 & 63) + (r >> 20 & 63) - 94) * noise / 64;
            p_sent[i] = bit;
            p_symbols[2 * i] = first;
            p_symbols[2 * i + 1] = second;
            s = (s << 1 | bit) & (STATES - 1);
        }
    }

    signed char* d_symbols;
    unsigned char *d_decided, *d_bits, *d_sent;
    int* d_errors;
    CUDA_CHECK(cudaMalloc(&d_symbols, symbols.size()));
    CUDA_CHECK(cudaMalloc(&d_decided, (size_t)n * STATES));
    CUDA_CHECK(cudaMalloc(&d_bits, n));
    CUDA_CHECK(cudaMalloc(&d_sent, n));
    CUDA_CHECK(cudaMalloc(&d_errors, sizeof(int)));
    CUDA_CHECK(cudaMemcpy(d_symbols, symbols.data(), symbols.size(), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_sent, sent.data(), n, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_errors, 0, sizeof(int)));

    size_t shared = steps <= kMostShared ? kWarps * steps * sizeof(uint2) : 0;
    viterbi_decode<<<(frames + kWarps - 1) / kWarps, 32 * kWarps, shared>>>(d_symbols, d_decided, d_bits, steps, frames);
    CUDA_CHECK(cudaGetLastError());
    count_errors<<<(n + 255) / 256, 256>>>(d_bits, d_sent, d_errors, n);
    CUDA_CHECK(cudaGetLastError());

    int errors = 0;
    std::vector<unsigned char> bits(n);
    CUDA_CHECK(cudaMemcpy(&errors, d_errors, sizeof(int), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(bits.data(), d_bits, n, cudaMemcpyDeviceToHost));

    // some frames on the host
    int wrong = 0;
    std::vector<unsigned char> decisions((size_t)steps * STATES);
    for (int f = 0; f < frames; f += 1 + frames / 20) {
        int metric[2][STATES];
        for (int s = 0; s < STATES; s++) metric[0][s] = s == 0 ? 0 : 100000;
        for (int t = 0; t < steps; t++) {
            const signed char* in = p_symbols + ((size_t)f * steps + t) * 2;
            for (int s = 0; s < STATES; s++) {
                int cost[2];
                for (int k = 0; k < 2; k++) {
                    int from = s >> 1 | k * STATES / 2, c = code[from][s & 1];
                    cost[k] = metric[t & 1][from] - (c & 2 ? in[0] : -in[0]) - (c & 1 ? in[1] : -in[1]);
                }
                metric[(t + 1) & 1][s] = cost[1] < cost[0] ? cost[1] : cost[0];
                decisions[t * STATES + s] = cost[1] < cost[0];
            }
        }
        int s = 0;
        for (int t = steps - 1; t >= 0; t--) {
            wrong += bits[(size_t)f * steps + t] != (s & 1);
            s = s >> 1 | (decisions[t * STATES + s] ? STATES / 2 : 0);
        }
    }
    cudaFree(d_symbols);
    cudaFree(d_decided);
    cudaFree(d_bits);
    cudaFree(d_sent);
    cudaFree(d_errors);
    printf("%d of %d bits wrong after decoding\n%s\n", errors, frames * message, wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
