// Mean brightness of every row of a scanned page that lies pitched in device memory.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int kWidth = 5000, kHeight = 32768;

struct Page {
    const char *base;
    size_t pitch;
    __device__ const float *row(int y) const { return reinterpret_cast<const float *>(base + y * pitch); }
};

// class: memory
__global__ void row_means(float *__restrict__ means, Page page)
{
    int y = blockIdx.x * blockDim.x + threadIdx.x;
    if (y >= kHeight) return;
    const float *pixels = page.row(y);
    float sum = 0.0f;
    for (int x = 0; x < kWidth; ++x) sum += pixels[x];  // expect: uncoalesced-global-read
    means[y] = sum / kWidth;
}

int main()
{
    std::vector<float> page(size_t(kWidth) * kHeight), got(kHeight);
    for (size_t i = 0; i < page.size(); ++i) page[i] = float(i % 255) / 255.0f;
    void *base;
    size_t pitch;
    float *means;
    cudaMallocPitch(&base, &pitch, kWidth * sizeof(float), kHeight);
    cudaMalloc(&means, kHeight * sizeof(float));
    cudaMemcpy2D(base, pitch, page.data(), kWidth * sizeof(float), kWidth * sizeof(float), kHeight,
                 cudaMemcpyHostToDevice);
    for (int repeat = 0; repeat < 5; ++repeat)
        row_means<<<kHeight / 128, 128>>>(means, Page{static_cast<const char *>(base), pitch});
    cudaMemcpy(got.data(), means, kHeight * sizeof(float), cudaMemcpyDeviceToHost);
    for (int y = 0; y < kHeight; y += 611) {
        double want = 0.0;
        for (int x = 0; x < kWidth; ++x) want += page[size_t(y) * kWidth + x];
        if (fabs(got[y] - want / kWidth) > 1e-3) return printf("row %d: %f, not %f\n", y, got[y], want / kWidth), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
