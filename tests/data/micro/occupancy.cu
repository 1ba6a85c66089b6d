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
    for (int r = 0; r < 48; ++r) tile[r][threadIdx.x] = in[block + r * 256 + threadIdx.x];  // expect: one-load-in-flight
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

// The loop needs few registers; what a few threads do after it needs many, and keeps warps away from the loop.
__device__ __forceinline__ float solved(const float *__restrict__ matrix, float start)
{
    float m[10][10], sum = 0.0f;
#pragma unroll
    for (int r = 0; r < 10; ++r)
#pragma unroll
        for (int c = 0; c < 10; ++c) m[r][c] = matrix[r * 10 + c] * start;
#pragma unroll
    for (int p = 0; p < 10; ++p)
#pragma unroll
        for (int r = p + 1; r < 10; ++r) {
            float f = m[r][p] * __frcp_rn(m[p][p]);
#pragma unroll
            for (int c = p; c < 10; ++c) m[r][c] -= f * m[p][c];
        }
#pragma unroll
    for (int p = 0; p < 10; ++p) sum += m[p][p];
    return sum;
}

__global__ void __launch_bounds__(256, 1) walk_and_solve(float *__restrict__ out, const float *__restrict__ field,  // expect: occupancy-registers
                                                         const float *__restrict__ matrix, int n, int few)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned at = i;
    float sum = 0.0f;
    for (int step = 0; step < 100; ++step) {
        float v = field[at & 0xffffff];  // expect: dependent-loads, expect: indirect-access
        at = at * 1664525u + unsigned(v * 1000.0f);
        sum += v;
    }
    if (i < few) sum += solved(matrix, sum);
    out[i] = sum;
}

// The amount has a name: that is where it is written.
__global__ void looked_up(float *__restrict__ out, const float *__restrict__ in, const float *__restrict__ table, int entries, int n)
{
    extern __shared__ float kept[];
    for (int e = threadIdx.x; e < entries; e += blockDim.x) kept[e] = table[e];
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = in[i] * kept[int(in[i]) & 255];  // expect: one-load-in-flight
}

void launch_looked_up(float *out, const float *in, const float *table, int n)
{
    const int bytes = 24 * 1024 * sizeof(float);  // expect: occupancy-shared-memory
    cudaFuncSetAttribute(looked_up, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);

    looked_up<<<4096, 128, bytes>>>(out, in, table, 256, n);
}
