// Buffers come from the stream-ordered pool, are freed before the kernel has run, and come back elsewhere.
#include <cstdio>
#include <vector>

__global__ void blend(const float *a, const float *b, float *out, int n, float share) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = share * a[i] + (1 - share) * b[i];
}

int main() {
    const int n = 1 << 20;
    std::vector<float> host(n);
    for (int i = 0; i < n; ++i) host[i] = 0.001f * (i % 1000);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    for (int frame = 0; frame < 8; ++frame) {
        float *a, *b, *out;
        if (cudaMallocAsync(&a, n * 4, stream) != cudaSuccess) return 1;
        cudaMallocAsync(&b, n * 4, stream);
        cudaMallocAsync(&out, n * 4, stream);
        cudaMemcpyAsync(a, host.data(), n * 4, cudaMemcpyHostToDevice, stream);
        cudaMemcpyAsync(b, host.data(), n * 4, cudaMemcpyHostToDevice, stream);
        blend<<<n / 256, 256, 0, stream>>>(a, b, out, n, 0.25f * (frame % 4));
        cudaMemcpyAsync(host.data(), out, n * 4, cudaMemcpyDeviceToHost, stream);
        cudaFreeAsync(a, stream);
        cudaFreeAsync(b, stream);
        cudaFreeAsync(out, stream);
    }
    if (cudaStreamSynchronize(stream) != cudaSuccess) return 2;
    std::printf("%.4f\n", host[1234]);
    return 0;
}
