// SPDX-License-Identifier: Apache-2.0
// Non-local means: each pixel becomes a mean of the pixels around it, weighted by how alike their surroundings are.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define SEARCH 5               // pixels are looked for so far away
#define PATCH 2                // and compared with this much around them
#define PAD (SEARCH + PATCH)   // border around the image, so that nothing has to be checked

static void ok(cudaError_t e, int line) {
    if (e != cudaSuccess) {
        fprintf(stderr, "CUDA error in line %d: %s\n", line, cudaGetErrorString(e));
        exit(2);
    }
}
#define OK(x) ok(x, __LINE__)

__global__ void nonlocal_means(const float* padded, float* out, int width, int height, float inv_h2) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;

    int pitch = width + 2 * PAD;
    const float* center = padded + (y + PAD) * pitch + x + PAD;
    float sum = 0.0f, weights = 0.0f;
    for (int dy = -SEARCH; dy <= SEARCH; dy++) {
        for (int dx = -SEARCH; dx <= SEARCH; dx++) {
            const float* other = center + dy * pitch + dx;
            float distance = 0.0f;
            for (int j = -PATCH; j <= PATCH; j++) {
                for (int i = -PATCH; i <= PATCH; i++) {
                    float d = center[j * pitch + i] - other[j * pitch + i];
                    distance += d * d;
                }
            }
            float w = expf(-distance * inv_h2);
            sum += w * other[0];
            weights += w;
        }
    }
    out[y * width + x] = sum / weights;
}

// squared differences of neighbours, as a measure of noise
__global__ void roughness(const float* image, float* total, int width, int height) {
    __shared__ float row_sum[128];
    int y = blockIdx.x;
    float mine = 0.0f;
    for (int x = threadIdx.x; x + 1 < width; x += 128) {
        float d = image[y * width + x + 1] - image[y * width + x];
        mine += d * d;
    }
    row_sum[threadIdx.x] = mine;
    __syncthreads();
    for (int s = 64; s > 0; s >>= 1) {
        if (threadIdx.x < s) row_sum[threadIdx.x] += row_sum[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) total[y] = row_sum[0];
}

int main(int argc, char** argv) {
    int width = argc > 1 ? atoi(argv[1]) : 1600;
    int height = argc > 2 ? atoi(argv[2]) : 1200;
    int frames = argc > 3 ? atoi(argv[3]) : 10;
    float inv_h2 = 1.0f / (25 * 0.15f * 0.15f);

    int pitch = width + 2 * PAD;
    std::vector<float> image((size_t)width * height), padded((size_t)pitch * (height + 2 * PAD)), out(image.size());
    unsigned seed = 99;
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            seed = seed * 1664525u + 1013904223u;
            float noise = (seed >> 8) * (0.3f / 16777216.0f) - 0.15f;
            float clean = (x / 23 + y / 17) % 2 ? 0.7f : 0.3f;
            image[(size_t)y * width + x] = clean + 0.1f * x / width + noise;
        }
    }
    auto mirror = [](int i, int n) {
        while (i < 0 || i >= n) i = i < 0 ? -1 - i : 2 * n - 1 - i;
        return i;
    };
    for (int y = 0; y < height + 2 * PAD; y++)
        for (int x = 0; x < pitch; x++)
            padded[(size_t)y * pitch + x] = image[(size_t)mirror(y - PAD, height) * width + mirror(x - PAD, width)];

    float *d_padded, *d_out, *d_rough;
    OK(cudaMalloc(&d_padded, padded.size() * sizeof(float)));
    OK(cudaMalloc(&d_out, out.size() * sizeof(float)));
    OK(cudaMalloc(&d_rough, height * sizeof(float)));
    OK(cudaMemcpy(d_padded, padded.data(), padded.size() * sizeof(float), cudaMemcpyHostToDevice));

    cudaEvent_t a, b;
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    dim3 block(16, 16);
    dim3 grid((width + 15) / 16, (height + 15) / 16);
    OK(cudaEventRecord(a));
    for (int frame = 0; frame < frames; frame++) {
        nonlocal_means<<<grid, block>>>(d_padded, d_out, width, height, inv_h2);
        OK(cudaGetLastError());
    }
    OK(cudaEventRecord(b));
    roughness<<<height, 128>>>(d_out, d_rough, width, height);
    OK(cudaGetLastError());
    OK(cudaDeviceSynchronize());
    float ms = 0;
    OK(cudaEventElapsedTime(&ms, a, b));
    fprintf(stderr, "%.3f ms a frame\n", ms / frames);

    std::vector<float> rough(height);
    OK(cudaMemcpy(out.data(), d_out, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(rough.data(), d_rough, height * sizeof(float), cudaMemcpyDeviceToHost));
    OK(cudaFree(d_padded));
    OK(cudaFree(d_out));
    OK(cudaFree(d_rough));

    double worst = 0, left = 0;
    for (int y = 0; y < height; y++) left += rough[y];
    int step = 1 + width * height / 800;
    for (int i = 0; i < width * height; i += step) {
        const float* center = &padded[(size_t)(i / width + PAD) * pitch + i % width + PAD];
        double sum = 0, weights = 0;
        for (int dy = -SEARCH; dy <= SEARCH; dy++)
            for (int dx = -SEARCH; dx <= SEARCH; dx++) {
                double distance = 0;
                for (int j = -PATCH; j <= PATCH; j++)
                    for (int k = -PATCH; k <= PATCH; k++) {
                        double d = (double)center[j * pitch + k] - center[(dy + j) * pitch + dx + k];
                        distance += d * d;
                    }
                double w = std::exp(-distance * inv_h2);
                sum += w * center[dy * pitch + dx];
                weights += w;
            }
        worst = std::fmax(worst, std::fabs(out[i] - sum / weights));
    }
    printf("roughness %.4f\n", left / ((double)width * height) * 1e4);
    printf("%s\n", worst < 1e-4 ? "right" : "wrong");
    return worst < 1e-4 ? 0 : 1;
}
