// SPDX-License-Identifier: Apache-2.0
// A repair is for what binds: one query for all lanes beside keys that are rows apart, a slot that a table's search
// hands out; and both sides of a branch that meet as often.
#include <cuda_runtime.h>

__global__ void scores(const float *query, const float *keys, float *out, int width, int count) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= count) return;
    float sum = 0.0f;
    for (int i = 0; i < width; ++i) sum += query[i] * keys[t * width + i];  // told: uncoalesced-global-read warning
    out[t] = sum;
}

__global__ void product(const float *a, const float *b, float *c, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];  // told: missing-cache-reuse warning
    c[row * n + column] = sum;
}

__device__ int slot_of(const int *slots, int key, int size) {
    for (int at = key % size;; at = (at + 1) % size)
        if (slots[2 * at] == key) return slots[2 * at + 1];
}

__global__ void to_slots(const float *rows, const int *keys, const int *slots, int *counts, float *out, int width,
                         int count, int most) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int slot = slot_of(slots, keys[i], 2 * count);
    int at = atomicAdd(counts + slot, 1);
    if (at < most)  // told below a warning, as whether they come is data's
        for (int k = 0; k < width; ++k) out[(slot * most + at) * width + k] = rows[i * width + k];
}

__global__ void to_rows(const float *rows, const int *slots, float *out, int width, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int slot = slots[i];
    for (int k = 0; k < width; ++k) out[slot * width + k] = rows[i * width + k];  // told: uncoalesced-global-read warning
}

__device__ void in_turn(float *shared, float *out, int n) {
    shared[threadIdx.x] *= 2.0f;
    __syncthreads();
    if (threadIdx.x < n) out[threadIdx.x] = shared[255 - threadIdx.x];
    __syncthreads();
}

__global__ void ragged(float *out, int n) {
    __shared__ float own[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    own[threadIdx.x] = out[i];
    if (i < n) {
        __syncthreads();  // told: divergent-barrier information
        out[i] = own[255 - threadIdx.x];
        __syncthreads();
    } else {
        in_turn(own, out, n);
    }
}

__global__ void left_out(float *out, int n) {
    __shared__ float own[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    own[threadIdx.x] = out[i];
    if (i < n) {
        __syncthreads();  // told: divergent-barrier warning
        out[i] = own[255 - threadIdx.x];
    } else {
        own[threadIdx.x] = 0.0f;
    }
}

// Each thread adds up a column of its own: the barrier in the branch orders nothing.
__global__ void columns(float *out, const float *in, int n, int rows) {
    extern __shared__ float part[];
    int t = threadIdx.x;
    part[t] = in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    if (t < n) {
        for (int j = 1; j < rows; ++j) part[t] += part[t + j * n];
        __syncthreads();  // told: divergent-barrier information
        out[blockIdx.x * n + t] = part[t];
    }
}

void run(const float *a, const float *b, float *c, const int *keys, const int *slots, int *counts, int n) {
    scores<<<4096, 256>>>(a, b, c, n, n);
    product<<<dim3(128, 128), dim3(16, 16)>>>(a, b, c, 2048);
    to_slots<<<4096, 256>>>(a, keys, slots, counts, c, n, n, 32);
    to_rows<<<4096, 256>>>(a, slots, c, n, n);
    ragged<<<4096, 256>>>(c, n);
    left_out<<<4096, 256>>>(c, n);
    columns<<<4096, 256, 1024>>>(c, a, n, 256 / n);
}
