// Several damping passes over every cell of a large vector, pass by pass inside one kernel.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int CELLS = 96 << 20;
constexpr int PASSES = 8;

// class: memory
__global__ void damp(float *__restrict__ u, const float *__restrict__ rate)
{
    const int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < CELLS; i += stride) {
        float v = u[i], r = rate[i];
        for (int pass = 0; pass < PASSES; ++pass) v -= r * v;
        u[i] = v;
    }
}

int main()
{
    std::vector<float> u(CELLS), rate(CELLS);
    for (int i = 0; i < CELLS; ++i) u[i] = float(i % 100), rate[i] = 0.01f * (i % 7);
    float *du, *drate;
    cudaMalloc(&du, sizeof(float) * CELLS);
    cudaMalloc(&drate, sizeof(float) * CELLS);
    cudaMemcpy(du, u.data(), sizeof(float) * CELLS, cudaMemcpyHostToDevice);
    cudaMemcpy(drate, rate.data(), sizeof(float) * CELLS, cudaMemcpyHostToDevice);
    damp<<<2112, 256>>>(du, drate);
    std::vector<float> got(CELLS);
    cudaMemcpy(got.data(), du, sizeof(float) * CELLS, cudaMemcpyDeviceToHost);
    for (int i = 0; i < CELLS; i += 1009) {
        float want = u[i] * powf(1.0f - rate[i], PASSES);
        if (fabsf(got[i] - want) > 1e-3f * (1.0f + want)) return printf("%d\n", i), 1;
    }
    puts("ok");
    return 0;
}
