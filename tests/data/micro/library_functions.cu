// SPDX-License-Identifier: Apache-2.0
// Precise functions of the library, which are most of a loop; and the recurrence that takes their place.

#include <cuda_runtime.h>

__global__ void mixed_down(float2 *out, const float *in, float step, int samples, int channels)
{
    int channel = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0.0f, c = 0.0f, real = 0.0f, imaginary = 0.0f;
    for (int i = 0; i < samples; ++i) {
        sincosf(step * (float)(i * channel), &s, &c);  // expect: library-functions
        real = fmaf(in[i * channels + channel], c, real);
        imaginary = fmaf(in[i * channels + channel], s, imaginary);
    }
    out[channel] = make_float2(real, imaginary);
}

__global__ void mixed_by_turning(float2 *out, const float *in, float step, int samples, int channels)
{
    int channel = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0.0f, c = 1.0f, by_s, by_c, real = 0.0f, imaginary = 0.0f;
    sincosf(step * (float)channel, &by_s, &by_c);
    for (int i = 0; i < samples; ++i) {
        real = fmaf(in[i * channels + channel], c, real);
        imaginary = fmaf(in[i * channels + channel], s, imaginary);
        float turned = c * by_c - s * by_s;
        s = s * by_c + c * by_s;
        c = turned;
    }
    out[channel] = make_float2(real, imaginary);
}

void launches(float2 *out, const float *in, float step, int samples)
{
    mixed_down<<<4096, 256>>>(out, in, step, samples, 1 << 20);
    mixed_by_turning<<<4096, 256>>>(out, in, step, samples, 1 << 20);
}
