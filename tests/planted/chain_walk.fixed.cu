// Mean square displacement along a molecular-dynamics trajectory: each worker takes its share of the samples.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int kSamples = 48'000'000, kBlocks = 528, kThreads = 256;

struct Share {
    int begin, end, step;
};

__device__ Share share_of(int count)
{
    int workers = gridDim.x * blockDim.x, me = blockIdx.x * blockDim.x + threadIdx.x;
    return {me, count, workers};
}

template <typename Body>
__device__ float accumulate(Share mine, Body body)
{
    float sum = 0.0f;
    for (int i = mine.begin; i < mine.end; i += mine.step) sum += body(i);
    return sum;
}

struct Square {
    const float *__restrict__ values;
    __device__ float operator()(int i) const { return values[i] * values[i]; }
};

// class: memory
__global__ void displacement(float *__restrict__ partial, const float *__restrict__ steps, int count)
{
    Share mine = share_of(count);
    partial[blockIdx.x * blockDim.x + threadIdx.x] = accumulate(mine, Square{steps});
}

int main()
{
    std::vector<float> steps(kSamples), partial(kBlocks * kThreads);
    for (int i = 0; i < kSamples; ++i) steps[i] = 0.01f * (i % 19 - 9);
    float *d_steps, *d_partial;
    cudaMalloc(&d_steps, kSamples * sizeof(float));
    cudaMalloc(&d_partial, partial.size() * sizeof(float));
    cudaMemcpy(d_steps, steps.data(), kSamples * sizeof(float), cudaMemcpyHostToDevice);
    for (int repeat = 0; repeat < 5; ++repeat) displacement<<<kBlocks, kThreads>>>(d_partial, d_steps, kSamples);
    cudaMemcpy(partial.data(), d_partial, partial.size() * sizeof(float), cudaMemcpyDeviceToHost);
    double got = 0.0, want = 0.0;
    for (float p : partial) got += p;
    for (float s : steps) want += double(s) * s;
    if (fabs(got - want) > 1e-3 * want) return printf("%f, not %f\n", got, want), 1;
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
