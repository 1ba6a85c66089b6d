// Sharpens frames one after the other: each is copied in, filtered twice, and copied back.
#include <cstdio>
#include <cstdlib>
#include <cstring>

__global__ void sharpen(float* out, const float* in, int n, float amount) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float left = in[i ? i - 1 : 0], right = in[i + 1 < n ? i + 1 : i];
    out[i] = in[i] + amount * (2 * in[i] - left - right);
}

static unsigned state = 1;

static float noise() {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) * (1.0f / (1 << 24));
}

int main(int argc, char** argv) {
    int n = argc > 1 ? std::atoi(argv[1]) : 1 << 22, frames = argc > 2 ? std::atoi(argv[2]) : 60;
    size_t bytes = n * sizeof(float);
    float* frame = static_cast<float*>(std::malloc(bytes));
    float* result = static_cast<float*>(std::malloc(bytes));
    float *in, *out;
    if (cudaMalloc(&in, bytes) != cudaSuccess || cudaMalloc(&out, bytes) != cudaSuccess) {
        std::fprintf(stderr, "no memory on a GPU\n");
        return 1;
    }
    for (int i = 0; i < n; ++i) frame[i] = noise();
    double total = 0;
    for (int f = 0; f < frames; ++f) {
        frame[f % n] = noise();
        cudaMemcpy(in, frame, bytes, cudaMemcpyHostToDevice);
        sharpen<<<(n + 255) / 256, 256>>>(out, in, n, 0.5f);
        sharpen<<<(n + 255) / 256, 256>>>(in, out, n, 0.25f);
        cudaMemcpy(result, in, bytes, cudaMemcpyDeviceToHost);
        for (int i = f; i < n; i += 4099) total += result[i] * (i % 7 + 1);
    }
    if (cudaDeviceSynchronize() != cudaSuccess) return 2;
    std::printf("%d frames, total %.6f\n", frames, total);
    std::FILE* file = std::fopen("last.bin", "wb");
    if (!file || std::fwrite(result, 4, n < 65536 ? n : 65536, file) == 0) return 3;
    std::fclose(file);
    return 0;
}
