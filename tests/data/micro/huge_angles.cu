// SPDX-License-Identifier: Apache-2.0
// The exact reduction of a huge angle keeps an array in local memory and computes in double; no angle is huge here.

#include <cuda_runtime.h>

__global__ void turned(const float *x, float2 *y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = make_float2(cosf(x[i]), sinf(x[i]));  // hint: aliasing-reload
}

__global__ void slope(const double *x, double *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = sin(x[i]) / (2.0 + cos(x[i]));
}

void launches(const float *x, float2 *y, const double *a, double *b, int n)
{
    turned<<<1056, 256>>>(x, y, n);
    slope<<<65536, 256>>>(a, b);
}
