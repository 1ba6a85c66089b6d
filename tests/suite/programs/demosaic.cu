// SPDX-License-Identifier: Apache-2.0
// A camera's Bayer mosaic (RGGB, 8 bits) to interleaved RGB by bilinear interpolation, and the mean colour of the result.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                             \
    do {                                                                                        \
        cudaError_t err = (call);                                                               \
        if (err != cudaSuccess) {                                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err));        \
            return 1;                                                                           \
        }                                                                                       \
    } while (0)

// What is outside the image is its mirror image, which keeps the colours of the mosaic.
__host__ __device__ inline int mirror(int i, int n) {
    if (i < 0) return -i;
    if (i >= n) return 2 * n - 2 - i;
    return i;
}

__global__ void demosaic(const unsigned char* raw, unsigned char* rgb, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;

    int left = mirror(x - 1, width), right = mirror(x + 1, width);
    int up = mirror(y - 1, height), down = mirror(y + 1, height);

    int centre = raw[y * width + x];
    int horizontal = raw[y * width + left] + raw[y * width + right];
    int vertical = raw[up * width + x] + raw[down * width + x];
    int diagonal = raw[up * width + left] + raw[up * width + right] + raw[down * width + left] + raw[down * width + right];

    int r, g, b;
    if (y % 2 == 0 && x % 2 == 0) {  // red
        r = centre;
        g = (horizontal + vertical) / 4;
        b = diagonal / 4;
    } else if (y % 2 == 0) {  // green in a row with red
        r = horizontal / 2;
        g = centre;
        b = vertical / 2;
    } else if (x % 2 == 0) {  // green in a row with blue
        r = vertical / 2;
        g = centre;
        b = horizontal / 2;
    } else {  // blue
        r = diagonal / 4;
        g = (horizontal + vertical) / 4;
        b = centre;
    }
    rgb[3 * (y * width + x)] = r;
    rgb[3 * (y * width + x) + 1] = g;
    rgb[3 * (y * width + x) + 2] = b;
}

__global__ void channel_sums(const unsigned char* rgb, unsigned long long* sums, int pixels) {
    unsigned r = 0, g = 0, b = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < pixels; i += gridDim.x * blockDim.x) {
        r += rgb[3 * i];
        g += rgb[3 * i + 1];
        b += rgb[3 * i + 2];
    }
    atomicAdd(&sums[0], (unsigned long long)r);
    atomicAdd(&sums[1], (unsigned long long)g);
    atomicAdd(&sums[2], (unsigned long long)b);
}

int main(int argc, char** argv) {
    int width = argc > 1 ? atoi(argv[1]) : 8192;
    int height = argc > 2 ? atoi(argv[2]) : 6144;
    int frames = argc > 3 ? atoi(argv[3]) : 20;
    int pixels = width * height;

    // a gradient with noise
    std::vector<unsigned char> raw(pixels), rgb((size_t)3 * pixels);
    unsigned seed = 99;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            seed = seed * 1664525u + 1013904223u;
            raw[(size_t)y * width + x] = (x * 150 / width + y * 80 / height + (seed >> 27)) & 255;
        }

    unsigned char *d_raw, *d_rgb;
    unsigned long long *d_sums, sums[3];
    CHECK(cudaMalloc(&d_raw, pixels));
    CHECK(cudaMalloc(&d_rgb, (size_t)3 * pixels));
    CHECK(cudaMalloc(&d_sums, sizeof sums));
    CHECK(cudaMemcpy(d_raw, raw.data(), pixels, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(d_sums, 0, sizeof sums));

    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    dim3 block(16, 16);
    dim3 grid((width + block.x - 1) / block.x, (height + block.y - 1) / block.y);
    CHECK(cudaEventRecord(start));
    for (int f = 0; f < frames; f++) demosaic<<<grid, block>>>(d_raw, d_rgb, width, height);
    CHECK(cudaEventRecord(stop));
    CHECK(cudaGetLastError());
    channel_sums<<<1024, 256>>>(d_rgb, d_sums, pixels);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(sums, d_sums, sizeof sums, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(rgb.data(), d_rgb, (size_t)3 * pixels, cudaMemcpyDeviceToHost));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    fprintf(stderr, "%.3f ms a frame\n", ms / frames);

    // every so many rows, the first and the last among them: of each colour the mean of the nearest that have it
    int wrong = 0;
    auto at = [&](int x, int y) { return (int)raw[(size_t)mirror(y, height) * width + mirror(x, width)]; };
    auto colour = [](int x, int y) { return y % 2 == 0 ? (x % 2 == 0 ? 0 : 1) : (x % 2 == 0 ? 1 : 2); };
    int stride = height / 40 + 1;
    for (int k = 0; k <= height / stride; k++) {
        int y = k * stride < height ? k * stride : height - 1;
        for (int x = 0; x < width; x++)
            for (int c = 0; c < 3; c++) {
                int sum = 0, count = 0;
                if (colour(x, y) == c) {
                    sum = at(x, y);
                    count = 1;
                } else
                    for (int dy = -1; dy <= 1; dy++)
                        for (int dx = -1; dx <= 1; dx++)
                            if (colour(x + dx + 2, y + dy + 2) == c) {
                                sum += at(x + dx, y + dy);
                                count++;
                            }
                wrong += rgb[3 * ((size_t)y * width + x) + c] != sum / count;
            }
    }
    cudaFree(d_raw);
    cudaFree(d_rgb);
    cudaFree(d_sums);
    printf("mean colour %.4f %.4f %.4f\n", (double)sums[0] / pixels, (double)sums[1] / pixels, (double)sums[2] / pixels);
    printf("%s\n", wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
