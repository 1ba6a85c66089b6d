// Work that threads do again or need not do, beside twins that do it once. A mark names what is expected on its line.

__global__ void near_ones(int *__restrict__ out, const float4 *__restrict__ at, int n, float radius)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, near = 0;
    float4 own = at[i];
    for (int j = 0; j < 4096; ++j) {
        float4 other = at[j];  // expect: missing-cache-reuse
        float x = other.x - own.x, y = other.y - own.y;
        if (sqrtf(x * x + y * y) < radius) ++near;  // expect: compared-root
    }
    out[i] = near;
}

__global__ void near_ones_by_squares(int *__restrict__ out, const float4 *__restrict__ at, int n, float radius)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, near = 0;
    float4 own = at[i];
    for (int j = 0; j < 4096; ++j) {
        float4 other = at[j];  // expect: missing-cache-reuse
        float x = other.x - own.x, y = other.y - own.y;
        if (x * x + y * y < radius * radius) ++near;
    }
    out[i] = near;
}

// A harmonic's place, rounded.
__global__ void harmonics(float *__restrict__ out, const float *__restrict__ in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = in[i];
    sum += in[(int)(i * 0.5 + 0.5)];  // expect: integer-in-double, expect: double-in-float-kernel
    sum += in[(int)(i * 0.75 + 0.5)];
    sum += in[(int)(i * 0.25 + 0.5)];
    out[i] = sum;
}

__global__ void harmonics_in_integers(float *__restrict__ out, const float *__restrict__ in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = in[i];
    sum += in[(i + 1) >> 1];
    sum += in[(3 * i + 2) >> 2];
    sum += in[(i + 2) >> 2];
    out[i] = sum;
}

void run(int *counts, const float4 *at, float *out, const float *in, int n, float radius)
{
    near_ones<<<2112, 256>>>(counts, at, n, radius);
    near_ones_by_squares<<<2112, 256>>>(counts, at, n, radius);
    harmonics<<<(n + 255) / 256, 256>>>(out, in, n);
    harmonics_in_integers<<<(n + 255) / 256, 256>>>(out, in, n);
}
