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
    for (int offset = 16; offset > 0; offset >>= 1)
        x += __shfl_down_sync(0xffffffffu, x, offset);  // expect: reduction-per-element
    if (threadIdx.x % 32 == 0) {
        out[i / 32] = x;
    }
}

__device__ float drift(float x, int rounds)
{
    for (int r = 0; r < rounds; ++r) x = x * 1.0001f + 0.5f;
    return x;
}

__global__ void four_kinds(float *__restrict__ out, const float *__restrict__ in)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    float x = in[i];
    switch (threadIdx.x % 4) {  // expect: warp-divergence
    case 0: x = drift(x, 300); break;
    case 1: x = drift(x * 2.0f, 301); break;
    case 2: x = drift(x * 3.0f, 302); break;
    default: x = drift(x * 4.0f, 303);
    }
    out[i] = x;
}

__global__ void a_kind_a_warp(float *__restrict__ out, const float *__restrict__ in)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    float x = in[i];
    switch (threadIdx.x / 32 % 2) {
    case 0: x = drift(x, 300); break;
    default: x = drift(x * 4.0f, 303);
    }
    out[i] = x;
}

// What each lane loads chooses its side: only a run shows whether neighbours differ.
__global__ void by_kind(float *__restrict__ out, const float *__restrict__ in, const int *__restrict__ kinds, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i];
    const int kind = kinds[i] & 3;
    if (kind == 0) {  // expect: warp-divergence
        x = drift(x, 300);
    } else if (kind == 1) {
        x = drift(x * 2.0f, 301);
    } else {
        for (int r = 0; r < 302; ++r) x = x * 1.0002f + 0.25f;
    }
    out[i] = x;
}

// The block's own kind: every lane takes the same side.
__global__ void by_block(float *__restrict__ out, const float *__restrict__ in, const int *__restrict__ kinds, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i];
    const int kind = kinds[blockIdx.x];
    if (kind == 0) {
        x = drift(x, 300);
    } else {
        for (int r = 0; r < 302; ++r) x = x * 1.0002f + 0.25f;
    }
    out[i] = x;
}

__global__ void in_one_line(float *__restrict__ out, const float *__restrict__ in, const int *__restrict__ kinds, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i];
    if (kinds[i] > 2) x = drift(x, 300);  // expect: warp-divergence
    else x = polish(x, 302);
    out[i] = x;
}

// A sweep over the elements of one colour, with a thread for each element.
__global__ void coloured(float *__restrict__ x, const float *__restrict__ b, int n, int colour)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x + 1, j = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (i <= n && j <= n && ((i + j) & 1) == colour) {  // expect: warp-divergence
        int at = i + (n + 2) * j;
        x[at] = 0.25f * (b[at] + x[at - 1] + x[at + 1] + x[at - n - 2] + x[at + n + 2]);  // expect: misaligned-access
    }
}

// The same with a thread for each element of the colour.
__global__ void coloured_alone(float *__restrict__ x, const float *__restrict__ b, int n, int colour)
{
    int j = blockIdx.y * blockDim.y + threadIdx.y + 1;
    int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + 1 + (j + colour) % 2;
    if (i <= n && j <= n) {
        int at = i + (n + 2) * j;
        x[at] = 0.25f * (b[at] + x[at - 1] + x[at + 1] + x[at - n - 2] + x[at + n + 2]);
    }
}
