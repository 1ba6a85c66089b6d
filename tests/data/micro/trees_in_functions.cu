// SPDX-License-Identifier: Apache-2.0
// A tree in shared memory that a function walks, and two kernels that call it: one finding, with both places.

__device__ void summed(float *sums)
{
    int t = threadIdx.x;
    __syncthreads();
    if (t < 128) sums[t] += sums[t + 128];
    __syncthreads();  // expect: barrier-heavy
    if (t < 64) sums[t] += sums[t + 64];
    __syncthreads();
    if (t < 32) sums[t] += sums[t + 32];
    __syncthreads();
    if (t < 16) sums[t] += sums[t + 16];
    __syncthreads();
}

__global__ void moments(float *out, const float *x)
{
    __shared__ float sums[256];
    float v = x[blockIdx.x * 256 + threadIdx.x], power = 1.0f;
    for (int k = 0; k < 40; ++k) {
        power *= v;
        sums[threadIdx.x] = power;
        summed(sums);
        if (threadIdx.x == 0) out[blockIdx.x * 40 + k] = sums[0];
    }
}

void launch(float *out, const float *x) { moments<<<4096, 256>>>(out, x); }
