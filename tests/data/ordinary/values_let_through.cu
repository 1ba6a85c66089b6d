// SPDX-License-Identifier: Apache-2.0
// A function in full precision that a cut-off keeps from most iterations, which no text tells, and one of every
// iteration.
#include <cuda_runtime.h>

__device__ __forceinline__ float lobe(float x) { return x == 0.0f ? 1.0f : sinf(x) / x; }

__device__ __forceinline__ float windowed(float apart, float width)
{
    return fabsf(apart) < 0.5f * width ? lobe(apart * 3.14159f) : 0.0f;
}

__global__ void sum_in_window(const float *at, float *out, float width, int sources)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < sources; ++k) sum += windowed(i - at[k], width);
    out[i] = sum;
}

__global__ void sum_of_all(const float *at, float *out, float width, int sources)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < sources; ++k) sum += sinf((i - at[k]) * width);  // told: sfu-bound warning
    out[i] = sum;
}

void run(const float *at, float *out, int blocks, int sources)
{
    sum_in_window<<<blocks, 256>>>(at, out, 32.0f, sources);
    sum_of_all<<<blocks, 256>>>(at, out, 0.01f, sources);
}
