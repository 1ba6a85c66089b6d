// Scale and copy with 16-byte accesses.
#include <cstdio>
#include <vector>

// class: memory
__global__ void scale4(const float4 *__restrict__ in, float4 *__restrict__ out, float s, size_t n)
{
    size_t stride = size_t(gridDim.x) * blockDim.x;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
        float4 v = in[i];
        out[i] = make_float4(v.x * s, v.y * s, v.z * s, v.w * s);
    }
}

// class: memory
__global__ void axpy(const float *__restrict__ x, float *__restrict__ y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

int main()
{
    const int n = 64 << 20;
    std::vector<float> host(n, 1.0f);
    float *x, *y;
    cudaMalloc(&x, n * 4l), cudaMalloc(&y, n * 4l);
    cudaMemcpy(x, host.data(), n * 4l, cudaMemcpyHostToDevice);
    scale4<<<132 * 8, 256>>>((const float4 *)x, (float4 *)y, 2.0f, n / 4);
    axpy<<<n / 256, 256>>>(x, y, 3.0f, n);
    cudaMemcpy(host.data(), y, n * 4l, cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i += 111)
        if (host[i] != 5.0f) return puts("wrong"), 1;
    puts("ok");
}
