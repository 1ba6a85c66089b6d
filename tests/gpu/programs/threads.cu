// Two host threads launch on streams of their own.
#include <cstdio>
#include <thread>

__global__ void scale(float* x, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}

__global__ void busy(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * 0.5f + 0.25f;
}

int main() {
    const int n = 1 << 20;
    float *a, *b;
    cudaMalloc(&a, n * 4);
    cudaMalloc(&b, n * 4);
    cudaMemset(a, 1, n * 4);
    cudaMemset(b, 1, n * 4);
    auto work = [=](bool first) {
        cudaStream_t stream;
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        for (int i = 0; i < 200; ++i) {
            if (first) scale<<<n / 256, 256, 0, stream>>>(a, n, 0.999f);
            else busy<<<n / 256, 256, 0, stream>>>(b, n);
            cudaStreamSynchronize(stream);
        }
    };
    std::thread one(work, true), two(work, false);
    one.join();
    two.join();
    std::printf("threads ok\n");
    return cudaDeviceSynchronize() != cudaSuccess;
}
