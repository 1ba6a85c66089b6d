// Tidal heights at the gauges of a coast: for each gauge the series of its harmonic constituents.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int kGauges = 132 * 256, kTerms = 4096;

__constant__ float amplitude[kTerms];

// class: compute
__global__ void heights(float *__restrict__ height, const float *__restrict__ phase, int terms)
{
    int gauge = blockIdx.x * blockDim.x + threadIdx.x;
    float x = phase[gauge];
    float sum = 0.0f;
    for (int k = terms - 1; k >= 0; --k)
        sum = sum * x + amplitude[k];  // expect: low-ilp
    height[gauge] = sum;
}

int main()
{
    std::vector<float> terms(kTerms), phases(kGauges), got(kGauges);
    for (int k = 0; k < kTerms; ++k) terms[k] = 1.0f / (1 + k % 13);
    for (int g = 0; g < kGauges; ++g) phases[g] = 0.9f * g / kGauges;
    float *height, *phase;
    cudaMalloc(&height, kGauges * sizeof(float));
    cudaMalloc(&phase, kGauges * sizeof(float));
    cudaMemcpyToSymbol(amplitude, terms.data(), kTerms * sizeof(float));
    cudaMemcpy(phase, phases.data(), kGauges * sizeof(float), cudaMemcpyHostToDevice);
    for (int day = 0; day < 5; ++day) heights<<<kGauges / 128, 128>>>(height, phase, kTerms);
    cudaMemcpy(got.data(), height, kGauges * sizeof(float), cudaMemcpyDeviceToHost);
    for (int g = 0; g < kGauges; g += 1013) {
        double want = 0.0;
        for (int k = kTerms - 1; k >= 0; --k) want = want * phases[g] + terms[k];
        if (fabs(got[g] - want) > 1e-3 * fabs(want)) return printf("gauge %d: %f, not %f\n", g, got[g], want), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
