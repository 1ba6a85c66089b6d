// Rows of halves, one or eight a lane and load; what is looked at first is the instantiation for floats. A mark names what
// is expected on its line.
#include <cuda_fp16.h>
__device__ inline float summed(const float *row, const float *x, int lane, int n)
{
    float sum = 0.0f;
    for (int j = lane; j < n; j += 32) sum += row[j] * x[j];
    for (int s = 16; s > 0; s >>= 1) sum += __shfl_xor_sync(~0u, sum, s);
    return sum;
}
__device__ inline float summed(const half *row, const float *x, int lane, int n)
{
    float sum = 0.0f;
    for (int j = lane; j < n; j += 32) sum += __half2float(row[j]) * x[j];
    for (int s = 16; s > 0; s >>= 1) sum += __shfl_xor_sync(~0u, sum, s);
    return sum;
}
template <typename T>
__global__ void product(float *out, const T *a, const float *x, int n)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    float sum = summed(&a[n * row], x, threadIdx.x % 32, n);  // expect: scalar-access
    if (threadIdx.x % 32 == 0) out[row] = sum;
}
__global__ void product_of_vectors(float *out, const uint4 *a, const uint4 *x, int n)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    half2 sum = __float2half2_rn(0.0f);
    for (int j = threadIdx.x % 32; j < n / 8; j += 32) {
        uint4 p = a[n / 8 * row + j], q = x[j];  // expect: missing-cache-reuse
        sum = __hfma2(*(half2 *)&p.x, *(half2 *)&q.x, sum);
        sum = __hfma2(*(half2 *)&p.y, *(half2 *)&q.y, sum);
        sum = __hfma2(*(half2 *)&p.z, *(half2 *)&q.z, sum);
        sum = __hfma2(*(half2 *)&p.w, *(half2 *)&q.w, sum);
    }
    float all = __low2float(sum) + __high2float(sum);
    for (int s = 16; s > 0; s >>= 1) all += __shfl_xor_sync(~0u, all, s);
    if (threadIdx.x % 32 == 0) out[row] = all;
}

void run(float *o, const float *a, const half *b, const float *x, int n)
{
    product<float><<<n / 8, 256>>>(o, a, x, n);
    product<half><<<n / 8, 256>>>(o, b, x, n);
    product_of_vectors<<<n / 8, 256>>>(o, (const uint4 *)b, (const uint4 *)x, n);
}
