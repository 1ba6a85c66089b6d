// SPDX-License-Identifier: Apache-2.0
// Cross entropy of every row's logits against its label; losses summed into one number.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void cross_entropy_loss(const float* logits, const int* labels, float* losses, int batch, int classes) {
    int b = threadIdx.x + blockIdx.x * blockDim.x;
    if (b >= batch) return;
    float m = logits[b * classes];
    for (int c = 1; c < classes; c++) m = fmaxf(m, logits[b * classes + c]);
    float s = 0;
    for (int c = 0; c < classes; c++) s += __expf(logits[b * classes + c] - m);
    losses[b] = m + logf(s) - logits[b * classes + labels[b]];
}

__global__ void mean_loss(const float* losses, float* mean, int batch) {
    float s = 0;
    for (int i = 0; i < batch; i++) s += losses[i];
    *mean = s / batch;
}

int main(int argc, char** argv) {
    int batch = argc > 1 ? atoi(argv[1]) : 4096, classes = argc > 2 ? atoi(argv[2]) : 10000;
    std::vector<float> logits((size_t)batch * classes);
    std::vector<int> labels(batch);
    for (size_t i = 0; i < logits.size(); i++) logits[i] = sinf(i * 0.37f) * 3;
    for (int b = 0; b < batch; b++) labels[b] = (b * 131) % classes;
    float *d_logits, *d_losses, *d_mean, mean;
    int* d_labels;
    cudaMalloc(&d_logits, logits.size() * sizeof(float));
    cudaMalloc(&d_losses, batch * sizeof(float));
    cudaMalloc(&d_mean, sizeof(float));
    cudaMalloc(&d_labels, batch * sizeof(int));
    cudaMemcpy(d_logits, logits.data(), logits.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_labels, labels.data(), batch * sizeof(int), cudaMemcpyHostToDevice);
    for (int i = 0; i < 3; i++) {
        cross_entropy_loss<<<(batch + 63) / 64, 64>>>(d_logits, d_labels, d_losses, batch, classes);
        mean_loss<<<1, 1>>>(d_losses, d_mean, batch);
    }
    cudaMemcpy(&mean, d_mean, sizeof(float), cudaMemcpyDeviceToHost);
    double want = 0;
    for (int b = 0; b < batch; b++) {
        double m = -1e30, s = 0;
        for (int c = 0; c < classes; c++) m = fmax(m, logits[(size_t)b * classes + c]);
        for (int c = 0; c < classes; c++) s += exp(logits[(size_t)b * classes + c] - m);
        want += (m + log(s) - logits[(size_t)b * classes + labels[b]]) / batch;
    }
    printf("loss %.3f expected %.3f\n", mean, want);
    return fabs(mean - want) < 1e-3 * fabs(want) ? 0 : 1;
}
