// A square matrix product, launched several times on the same inputs: what the exploit suite attacks.
#include <cstdio>
#include <vector>

__global__ void product(float* c, const float* a, const float* b, const float* bias, int n) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= n || column >= n) return;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum + bias[column % 100];
}

int main() {
    const int n = 512;
    std::vector<float> host(n * n), weights(100, 0.25f);
    float *a, *b, *c, *bias;
    cudaMalloc(&a, n * n * 4);
    cudaMalloc(&b, n * n * 4);
    cudaMalloc(&c, n * n * 4);
    cudaMalloc(&bias, 100 * 4);
    for (int i = 0; i < n * n; ++i) host[i] = float((i * 7919) % 1009) / 1009.0f - 0.4f;
    cudaMemcpy(a, host.data(), n * n * 4, cudaMemcpyHostToDevice);
    for (int i = 0; i < n * n; ++i) host[i] = float((i * 104729) % 997) / 997.0f - 0.5f;
    cudaMemcpy(b, host.data(), n * n * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(bias, weights.data(), 100 * 4, cudaMemcpyHostToDevice);
    for (int i = 0; i < 6; ++i) product<<<dim3(n / 32, n / 8), dim3(32, 8)>>>(c, a, b, bias, n);
    if (cudaMemcpy(host.data(), c, n * n * 4, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    double sum = 0;
    for (float value : host) sum += value;
    std::printf("sum %.4f\n", sum);
    return 0;
}
