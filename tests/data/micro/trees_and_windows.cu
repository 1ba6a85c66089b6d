// Trees over a warp for little, and windows of shared memory. A mark names what is expected on its line.

__global__ void two_elements_a_lane(float *__restrict__ out, const float *__restrict__ in, int n)
{
    int i = blockIdx.x * blockDim.x * 2 + threadIdx.x;
    float sum = 0.f;
    if (i < n) sum += in[i];
    if (i + blockDim.x < n) sum += in[i + blockDim.x];
    for (int o = 16; o; o >>= 1) sum += __shfl_down_sync(~0u, sum, o);  // expect: reduction-per-element
    if ((threadIdx.x & 31) == 0) atomicAdd(&out[blockIdx.x], sum);
}

// As many elements as there are: one tree for all of them.
__global__ void many_elements_a_lane(float *__restrict__ out, const float *__restrict__ in, int n)
{
    float sum = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];  // hint: one-load-in-flight
    for (int o = 16; o; o >>= 1) sum += __shfl_down_sync(~0u, sum, o);
    if ((threadIdx.x & 31) == 0) atomicAdd(out, sum);
}

// A sum of each step over the clients of a warp.
__global__ void a_tree_a_step(int *__restrict__ sums, const int *__restrict__ in, int clients, int steps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, have = 0;
    for (int t = 0; t < steps; t++) {
        have += in[t * clients + i];  // hint: unoverlapped-copy
        int sum = have;
        for (int o = 16; o; o >>= 1) sum += __shfl_down_sync(~0u, sum, o);  // expect: reduction-per-element
        if ((threadIdx.x & 31) == 0) atomicAdd(&sums[t], sum);
    }
}

constexpr int kSide = 32, kReach = 2, kWide = kSide + 2 * kReach;
__constant__ float weight[2 * kReach + 1][2 * kReach + 1];

__device__ void fill(float (*tile)[kWide], const float *__restrict__ in, int n)
{
    for (int y = threadIdx.y; y < kWide; y += blockDim.y)
        for (int x = threadIdx.x; x < kWide; x += blockDim.x)
            tile[y][x] = in[(blockIdx.y * kSide + y) * n + blockIdx.x * kSide + x];
    __syncthreads();
}

__global__ void one_output(float *__restrict__ out, const float *__restrict__ in, int n)
{
    __shared__ float tile[kWide][kWide];
    fill(tile, in, n);  // hint: one-load-in-flight
    float sum = 0.f;
    for (int dy = 0; dy <= 2 * kReach; dy++)
        for (int dx = 0; dx <= 2 * kReach; dx++)
            sum += weight[dy][dx] * tile[threadIdx.y + dy][threadIdx.x + dx];  // expect: shared-windows
    out[(blockIdx.y * kSide + threadIdx.y) * n + blockIdx.x * kSide + threadIdx.x] = sum;
}

// Four outputs of a column: a row serves all whose window holds it.
__global__ void four_outputs(float *__restrict__ out, const float *__restrict__ in, int n)
{
    __shared__ float tile[kWide][kWide];
    fill(tile, in, n);  // hint: one-load-in-flight
    int first = 4 * threadIdx.y;
    float sum[4] = {};
#pragma unroll
    for (int y = 0; y < 4 + 2 * kReach; y++) {
        float row[2 * kReach + 1];
#pragma unroll
        for (int dx = 0; dx <= 2 * kReach; dx++) row[dx] = tile[first + y][threadIdx.x + dx];
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (y >= k && y - k <= 2 * kReach)
#pragma unroll
                for (int dx = 0; dx <= 2 * kReach; dx++) sum[k] += weight[y - k][dx] * row[dx];
    }
    for (int k = 0; k < 4; k++)
        out[(blockIdx.y * kSide + first + k) * n + blockIdx.x * kSide + threadIdx.x] = sum[k];
}

// A histogram of each block: what its data choose, one copy for all warps.
__global__ void counts(unsigned *__restrict__ bins, const unsigned *__restrict__ in, int n)
{
    __shared__ unsigned own[1024];
    for (int b = threadIdx.x; b < 1024; b += blockDim.x) own[b] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    while (i < n) {
        atomicAdd(&own[in[i]], 1u);  // expect: shared-atomic-contention hint: one-load-in-flight
        i += gridDim.x * blockDim.x;
    }
    __syncthreads();
    if (threadIdx.x < 32) bins[threadIdx.x] += own[threadIdx.x];
}
