// Sum of squared differences of a 24 x 24 template at every place of an image.
#include <cmath>
#include <cstdio>
#include <vector>

#define SIDE 24

// class: memory
__global__ void match(const float *__restrict__ image, const float *__restrict__ model, float *__restrict__ score,
                      int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x > width - SIDE || y > height - SIDE) return;
    float sum = 0.0f;
    for (int v = 0; v < SIDE; ++v)
        for (int u = 0; u < SIDE; ++u) {
            float d = image[(y + v) * width + x + u] - model[v * SIDE + u];  // expect: missing-cache-reuse
            sum += d * d;
        }
    score[y * width + x] = sum;
}

int main()
{
    const int width = 4096, height = 4096;
    std::vector<float> image(width * height), model(SIDE * SIDE), score(width * height);
    for (size_t i = 0; i < image.size(); ++i) image[i] = float((i * 2246822519u >> 22) % 64);
    for (size_t i = 0; i < model.size(); ++i) model[i] = float(i % 61);
    float *d_image, *d_model, *d_score;
    cudaMalloc(&d_image, image.size() * 4);
    cudaMalloc(&d_model, model.size() * 4);
    cudaMalloc(&d_score, score.size() * 4);
    cudaMemcpy(d_image, image.data(), image.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(d_model, model.data(), model.size() * 4, cudaMemcpyHostToDevice);
    dim3 threads(32, 8);
    for (int i = 0; i < 3; ++i)
        match<<<dim3(width / 32, height / 8), threads>>>(d_image, d_model, d_score, width, height);
    cudaMemcpy(score.data(), d_score, score.size() * 4, cudaMemcpyDeviceToHost);
    for (int y = 0; y <= height - SIDE; y += 97)
        for (int x = 0; x <= width - SIDE; x += 89) {
            double want = 0;
            for (int v = 0; v < SIDE; ++v)
                for (int u = 0; u < SIDE; ++u)
                    want += pow(double(image[(y + v) * width + x + u]) - model[v * SIDE + u], 2.0);
            if (fabs(want - score[y * width + x]) > 1e-3 * want + 1) return printf("%d,%d\n", x, y), 1;
        }
    puts("ok");
}
