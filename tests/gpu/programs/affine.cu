// out = in * gain + shift by rows; the plain case of the GPU tests. argv[1]: rows (8192).
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void affine(float* out, const float* in, const float* gain, const float* shift, int rows, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    for (int row = blockIdx.y; row < rows; row += gridDim.y)
        out[row * columns + column] = in[row * columns + column] * gain[column] + shift[column];
}

int main(int argc, char** argv) {
    const int rows = argc > 1 ? std::atoi(argv[1]) : 8192, columns = 1024;
    std::vector<float> host(size_t(rows) * columns), weights(columns);
    for (size_t i = 0; i < host.size(); ++i) host[i] = float(i % 977) * 0.01f - 3.0f;
    for (int i = 0; i < columns; ++i) weights[i] = 0.5f + float(i % 31) * 0.03f;
    float *in, *out, *gain, *shift;
    cudaMalloc(&in, host.size() * 4);
    cudaMalloc(&out, host.size() * 4);
    cudaMalloc(&gain, columns * 4);
    cudaMalloc(&shift, columns * 4);
    cudaMemcpy(in, host.data(), host.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(gain, weights.data(), columns * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(shift, weights.data(), columns * 4, cudaMemcpyHostToDevice);
    for (int i = 0; i < 5; ++i) affine<<<dim3(columns / 256, 64), 256>>>(out, in, gain, shift, rows, columns);
    std::vector<float> result(host.size());
    if (cudaMemcpy(result.data(), out, result.size() * 4, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    double sum = 0;
    for (float value : result) sum += value;
    std::printf("sum %.6e\n", sum);
    return 0;
}
