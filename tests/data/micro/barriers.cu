// Barriers that order nothing, and ones that do.
__global__ void wait_per_step(float *__restrict__ out, const float *__restrict__ in, int n)
{
    __shared__ float tile[256];
    tile[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k < 256; ++k) {
        sum += tile[k] * tile[255 - k];
        __syncthreads();  // expect: excess-barriers
    }
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}

__global__ void twice(float *__restrict__ out, const float *__restrict__ in, int rounds)
{
    __shared__ float tile[256];
    float x = in[blockIdx.x * 256 + threadIdx.x];
    for (int r = 0; r < rounds; ++r) {
        tile[threadIdx.x] = x;
        __syncthreads();
        x = fmaf(x, 0.5f, 1.0f);
        __syncthreads();  // expect: excess-barriers
        x += tile[255 - threadIdx.x];
        __syncthreads();
    }
    out[blockIdx.x * 256 + threadIdx.x] = x;
}

__global__ void tree_sum(float *__restrict__ out, const float *__restrict__ in)
{
    __shared__ float tile[256];
    tile[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    for (int s = 128; s > 0; s >>= 1) {  // expect: barrier-tree
        if (threadIdx.x < s) tile[threadIdx.x] += tile[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = tile[0];
}

__global__ void tiles(float *__restrict__ out, const float *__restrict__ in, int n)
{
    __shared__ float tile[256];
    float sum = 0.0f;
    for (int first = 0; first < n; first += 256) {
        tile[threadIdx.x] = in[first + threadIdx.x];  // hint: unoverlapped-copy
        __syncthreads();
        for (int k = 0; k < 256; ++k) sum += tile[k] * sum;  // expect: alike-loops
        __syncthreads();
    }
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}
