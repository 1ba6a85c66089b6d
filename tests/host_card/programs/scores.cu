// SPDX-License-Identifier: Apache-2.0
// Rows of measurements, a thread each: how they scatter, how many reach a limit, and what another row that may be none adds.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

__global__ void score(const float* in, const int* others, const int* changes, float* out, int rows, int width, float limit,
                      float half) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* mine = in + size_t(row) * width;
    float sum = 0, squares = 0, reached = 0;
    int count = 0;
    for (int c = 0; c < width; ++c) {
        const float x = mine[c];
        if (x != 0) sum += x, ++count;
        reached += x >= limit;
    }
    for (int c = 0; c < width; ++c)
        if (mine[c] != 0) squares += (mine[c] - sum / count) * (mine[c] - sum / count);
    const int other = others[row];
    out[row] = count > 1 ? squares / (count - 1) : 0.0f;
    out[rows + row] = reached;
    out[2 * rows + row] = other < rows ? in[size_t(other) * width] : -1.0f;
    out[3 * rows + row] = hypotf(mine[0], mine[1]);
    out[4 * rows + row] = 1.0f / (1.0f + fabsf(mine[0]) / half);
    out[5 * rows + row] = changes[row] / 8;
}

int main() {
    const int rows = 96, width = 100;
    std::vector<float> in(rows * width), out(6 * rows);
    std::vector<int> others(rows), changes(rows);
    for (int i = 0; i < rows * width; ++i) in[i] = 0.013f + 0.01f * (i * 37 % 89);
    for (int i = 0; i < rows; ++i) others[i] = i * 7 % rows, changes[i] = 1 + i * 31 % 400;
    float *d_in, *d_out;
    int *d_others, *d_changes;
    cudaMalloc(&d_in, in.size() * sizeof(float));
    cudaMalloc(&d_out, out.size() * sizeof(float));
    cudaMalloc(&d_others, rows * sizeof(int));
    cudaMalloc(&d_changes, rows * sizeof(int));
    cudaMemcpy(d_in, in.data(), in.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_others, others.data(), rows * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(d_changes, changes.data(), rows * sizeof(int), cudaMemcpyHostToDevice);
    for (int turn = 0; turn < 3; ++turn)
        score<<<(rows + 127) / 128, 128>>>(d_in, d_others, d_changes, d_out, rows, width, 0.5f, 0.25f);
    cudaMemcpy(out.data(), d_out, out.size() * sizeof(float), cudaMemcpyDeviceToHost);
    double sum = 0;
    for (float x : out) sum += x;
    std::printf("%f %s\n", sum, cudaGetErrorString(cudaGetLastError()));
}
