// Blocks that leave an SM too empty to fill the memory pipeline, and one that does not need more.
__global__ void tiny_blocks(float *__restrict__ out, const float *__restrict__ in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * 2.0f;
}

__global__ void large_tile(float *__restrict__ out, const float *__restrict__ in, int n)
{
    __shared__ float tile[48][256];  // expect: occupancy-shared-memory
    int block = blockIdx.x * 48 * 256;
#pragma unroll 1
    for (int r = 0; r < 48; ++r) tile[r][threadIdx.x] = in[block + r * 256 + threadIdx.x];
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < 48; ++r) out[block + r * 256 + threadIdx.x] = tile[47 - r][255 - threadIdx.x];
}

__global__ void full_blocks(float *__restrict__ out, const float *__restrict__ in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * 2.0f;
}

void launch(float *out, const float *in, int n)
{
    tiny_blocks<<<n / 32, 32>>>(out, in, n);  // expect: occupancy-block-size
    large_tile<<<n / (48 * 256), 256>>>(out, in, n);
    full_blocks<<<n / 256, 256>>>(out, in, n);
}
