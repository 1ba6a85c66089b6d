// Barriers of a block where its warps share nothing with each other, and where they do.
__device__ __forceinline__ float warpSum(float v)
{
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    return v;
}

__global__ void apart(const float *in, const int *first, float *out, int rows)
{
    __shared__ float mean[8];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int r = blockIdx.x * 8 + warp; r < rows; r += gridDim.x * 8) {
        const int begin = first[r], end = first[r + 1];
        float sum = 0.0f;
        for (int i = begin + lane; i < end; i += 32) sum += in[i];
        sum = warpSum(sum);
        if (lane == 0) mean[warp] = sum / (end - begin);
        __syncthreads(); // expect: excess-barriers
        for (int i = begin + lane; i < end; i += 32) out[i] = in[i] - mean[warp];
    }
}

__global__ void together(const float *in, const int *first, float *out, int rows)
{
    __shared__ float part[8];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int r = blockIdx.x; r < rows; r += gridDim.x) {
        const int begin = first[r], end = first[r + 1];
        float sum = 0.0f;
        for (int i = begin + threadIdx.x; i < end; i += 256) sum += in[i];
        sum = warpSum(sum);
        if (lane == 0) part[warp] = sum;
        __syncthreads();
        float all = 0.0f;
        for (int w = 0; w < 8; ++w) all += part[w];
        __syncthreads();
        if (threadIdx.x == 0) out[r] = all;
    }
}

// A window of its own for each thread: the loop moves the index by whole rows.
__global__ void windows(const float *in, float *out, int steps, int pitch)
{
    __shared__ float ring[8][256];
    const int t = threadIdx.x, at = blockIdx.x * 256 + t;
    for (int w = 0; w < 8; ++w) ring[w][t] = 0.0f;
    float sum = 0.0f, most = 0.0f;
    for (int s = 0; s < steps; ++s) {
        const float x = in[size_t(s) * pitch + at];  // hint: unoverlapped-copy
        sum += x - ring[s % 8][t];
        ring[s % 8][t] = x;
        __syncthreads(); // expect: excess-barriers
        most = fmaxf(most, sum);
    }
    out[at] = most;
}

// As above, but each thread looks at its neighbour's.
__global__ void neighbours(const float *in, float *out, int steps, int pitch)
{
    __shared__ float ring[8][256];
    const int t = threadIdx.x, at = blockIdx.x * 256 + t;
    for (int w = 0; w < 8; ++w) ring[w][t] = 0.0f;
    float sum = 0.0f, most = 0.0f;
    for (int s = 0; s < steps; ++s) {
        const float x = in[size_t(s) * pitch + at];  // hint: unoverlapped-copy
        ring[s % 8][t] = x;
        __syncthreads();  // expect: barriers-per-step
        sum += x - ring[(s + 1) % 8][(t + 1) % 256];
        __syncthreads();
        most = fmaxf(most, sum);
    }
    out[at] = most;
}

int main()
{
    windows<<<1056, 256>>>(nullptr, nullptr, 1 << 10, 1056 * 256);
    neighbours<<<1056, 256>>>(nullptr, nullptr, 1 << 10, 1056 * 256);
    apart<<<264, 256>>>(nullptr, nullptr, nullptr, 1 << 20);
    together<<<264, 256>>>(nullptr, nullptr, nullptr, 1 << 20);
}
