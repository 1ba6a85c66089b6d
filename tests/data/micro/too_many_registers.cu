// A kernel whose block asks for more registers than an SM has, and the same with the bound that the compiler needs.
template <int kValues>
__device__ __forceinline__ float mixed(const float *__restrict__ in, int stride)
{
    float kept[kValues], sum = 0.0f;
#pragma unroll
    for (int k = 0; k < kValues; ++k) kept[k] = in[k * stride];
#pragma unroll
    for (int k = 0; k < kValues; ++k) sum += kept[k] * kept[kValues - 1 - k] + sum * kept[(k * 7) % kValues];
    return sum;
}

__global__ void unbounded(float *__restrict__ out, const float *__restrict__ in, int stride)  // expect: occupancy-registers
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = mixed<160>(in + i, stride);
}

__global__ void __launch_bounds__(512) bounded(float *__restrict__ out, const float *__restrict__ in, int stride)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = mixed<96>(in + i, stride);
}

void launch(float *out, const float *in, int stride)
{
    unbounded<<<1024, 512>>>(out, in, stride);
    bounded<<<1024, 512>>>(out, in, stride);
}
