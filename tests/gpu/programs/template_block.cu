// The block size is a template argument, repeated in the launch and in the dynamic shared size.
#include <cstdio>
#include <vector>

template <int BLOCK>
__global__ void pair_means(const float *in, float *out, int n)
{
    extern __shared__ float part[];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    part[threadIdx.x] = i < n ? in[i] : 0.0f;
    __syncthreads();
    if (i < n) out[i] = 0.5f * (part[threadIdx.x] + part[(threadIdx.x / 2) * 2]);
}

int main(int argc, char **)
{
    const int n = (1 << 22) + argc;
    std::vector<float> ones(n, 1.0f);
    float *in, *out;
    cudaMalloc(&in, n * sizeof(float));
    cudaMalloc(&out, n * sizeof(float));
    cudaMemcpy(in, ones.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    for (int i = 0; i < 20; ++i) pair_means<64><<<(n + 63) / 64, 64, 64 * sizeof(float)>>>(in, out, n);
    std::printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
