// Matrix product of halves on the tensor cores, through the wmma interface.
#include <cstdio>
#include <cuda_fp16.h>
#include <mma.h>
#include <vector>

using namespace nvcuda;

__global__ void multiply(const half *a, const half *b, float *c, int n) {
    const int row = blockIdx.y * 16, column = (blockIdx.x * blockDim.y + threadIdx.y) * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(left, a + row * n + k, n);
        wmma::load_matrix_sync(right, b + k * n + column, n);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

int main() {
    const int n = 1024;
    std::vector<half> host(n * n);
    for (int i = 0; i < n * n; ++i) host[i] = __float2half(static_cast<float>(i * 37 % 211) / 211 - 0.5f);
    half *a, *b;
    float *c, first;
    cudaMalloc(&a, n * n * sizeof(half));
    cudaMalloc(&b, n * n * sizeof(half));
    cudaMalloc(&c, n * n * sizeof(float));
    cudaMemcpy(a, host.data(), n * n * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(b, host.data(), n * n * sizeof(half), cudaMemcpyHostToDevice);
    for (int i = 0; i < 4; ++i) multiply<<<dim3(n / 64, n / 16), dim3(32, 4)>>>(a, b, c, n);
    if (cudaMemcpy(&first, c, 4, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%.3f\n", first);
    return 0;
}
