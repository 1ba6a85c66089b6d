// SPDX-License-Identifier: Apache-2.0
// A block that no card has, sides of a row of which a thread has one, and a division that hardly a lane leaves out.

__global__ void too_wide(float *__restrict__ out, const float *__restrict__ in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 2.0f * in[i];
}

/// A thread is at the left, in the middle or at the right, and waits once.
__global__ void sides(float *out, float *sums, int radius, int columns)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns) return;
    if (c <= radius) {
        out[c] = sums[c + radius];
    }
    if (c > radius && c < columns - radius) {
        out[c] = sums[c + radius] - sums[c - radius - 1];
    }
    if (c >= columns - radius) {
        out[c] = sums[columns - 1] - sums[c - radius - 1];
    }
}

/// What is tested is what the value is divided by.
__global__ void relative(float *__restrict__ out, const float *__restrict__ own, const float *__restrict__ of, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float worst = 0.0f;
    for (int k = 0; k < n; ++k) {
        float base = of[k * n + i];
        if (base != 0.0f) {
            float r = own[k * n + i] / base;
            worst = fmaxf(worst, fabsf(r - 1.0f) + sqrtf(r * r + 1.0f) / (r * r + 2.0f));
        }
    }
    out[i] = worst;
}

void launch(float *out, float *in, float *other, int n)
{
    too_wide<<<1024, 4096>>>(out, in);  // expect: occupancy-registers
    sides<<<1 << 14, 256>>>(out, in, 3, n);
    relative<<<1 << 14, 256>>>(out, in, other, n);
}
