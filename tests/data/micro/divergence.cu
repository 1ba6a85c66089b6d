// Branches that divide every warp, and ones that divide none, or only the last.
__device__ float polish(float x, int rounds)
{
    for (int k = 0; k < rounds; ++k) x = x * x * 0.5f + 0.1f;
    return x;
}

__global__ void alternating(float *__restrict__ out, const float *__restrict__ in, int n, int rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i];
    bool even = (threadIdx.x & 1) == 0;
    if (even) {  // expect: warp-divergence
        x = polish(x, rounds);
    } else {
        for (int k = 0; k < rounds; ++k) x = x * 0.25f + x * x;
    }
    out[i] = x;
}

__global__ void by_warp(float *__restrict__ out, const float *__restrict__ in, int n, int rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i];
    if (threadIdx.x / 32 % 2 == 0) {
        x = polish(x, rounds);
    } else {
        for (int k = 0; k < rounds; ++k) x = x * 0.25f + x * x;
    }
    out[i] = x;
}

__global__ void first_lane(float *__restrict__ out, const float *__restrict__ in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = i < n ? in[i] : 0.0f;
    for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_down_sync(0xffffffffu, x, offset);
    if (threadIdx.x % 32 == 0) {
        out[i / 32] = x;
    }
}
