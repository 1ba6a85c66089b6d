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

// symbols: (frames, steps, 2), positive for a likely 1; decided: (frames, steps, STATES); bits: (frames, steps)
__global__ void viterbi_decode(const signed char* symbols, unsigned char* decided, unsigned char* bits, int steps) {
    __shared__ int metric[2][STATES];
    int frame = blockIdx.x;
    int state = threadIdx.x;
    const signed char* in = symbols + (size_t)frame * steps * 2;
    unsigned char* decisions = decided + (size_t)frame * steps * STATES;

    // the two states from which one comes here, and what they send
    int from0 = state >> 1, from1 = from0 | STATES / 2;
    int code0 = code_bits(from0, state & 1);
    int code1 = code_bits(from1, state & 1);

    metric[0][state] = state == 0 ? 0 : 100000;
    __syncthreads();
    for (int t = 0; t < steps; t++) {
        int first = in[2 * t], second = in[2 * t + 1];
        int cost0 = metric[t & 1][from0] - (code0 & 2 ? first : -first) - (code0 & 1 ? second : -second);
        int cost1 = metric[t & 1][from1] - (code1 & 2 ? first : -first) - (code1 & 1 ? second : -second);
        metric[(t + 1) & 1][state] = cost1 < cost0 ? cost1 : cost0;
        decisions[t * STATES + state] = cost1 < cost0;
        __syncthreads();
    }

    // the encoder ends in state 0: back from there
    if (state == 0) {
        int s = 0;
        for (int t = steps - 1; t >= 0; t--) {
            bits[(size_t)frame * steps + t] = s & 1;
            s = s >> 1 | (decisions[t * STATES + s] ? STATES / 2 : 0);
        }
    }
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

    viterbi_decode<<<frames, STATES>>>(d_symbols, d_decided, d_bits, steps);
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
