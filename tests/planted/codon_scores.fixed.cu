// Scores two aligned protein sequences residue by residue with a substitution table.
#include <cstdio>
#include <cstdlib>

constexpr int kLetters = 24;
__device__ int substitution_table[kLetters * kLetters];

// class: memory
__global__ void score_pairs(const unsigned char *a, const unsigned char *b, int *scores, size_t length)
{
    __shared__ int local[kLetters * kLetters];
    for (int i = threadIdx.x; i < kLetters * kLetters; i += blockDim.x) local[i] = substitution_table[i];
    __syncthreads();
    size_t stride = size_t(gridDim.x) * blockDim.x;
    int total = 0;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < length; i += stride)
        total += local[a[i] * kLetters + b[i]];
    scores[size_t(blockIdx.x) * blockDim.x + threadIdx.x] = total;
}

int main()
{
    const size_t length = 256u << 20;
    const int blocks = 1056, threads = 256;
    int table[kLetters * kLetters];
    for (int i = 0; i < kLetters * kLetters; ++i) table[i] = i * 37 % 29 - 12;
    cudaMemcpyToSymbol(substitution_table, table, sizeof table);
    unsigned char *x = (unsigned char *)malloc(length), *y = (unsigned char *)malloc(length);
    unsigned state = 1;
    long long want = 0;
    for (size_t i = 0; i < length; ++i) {
        state = state * 1664525u + 1013904223u;
        x[i] = (state >> 16) % kLetters, y[i] = (state >> 24) % kLetters;
        want += table[x[i] * kLetters + y[i]];
    }
    unsigned char *dx, *dy;
    int *ds, *s = (int *)malloc(sizeof(int) * blocks * threads);
    cudaMalloc(&dx, length);
    cudaMalloc(&dy, length);
    cudaMalloc(&ds, sizeof(int) * blocks * threads);
    cudaMemcpy(dx, x, length, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y, length, cudaMemcpyHostToDevice);
    for (int i = 0; i < 3; ++i) score_pairs<<<blocks, threads>>>(dx, dy, ds, length);
    cudaMemcpy(s, ds, sizeof(int) * blocks * threads, cudaMemcpyDeviceToHost);
    long long got = 0;
    for (int i = 0; i < blocks * threads; ++i) got += s[i];
    puts(got == want ? "ok" : "wrong");
    return got != want;
}
