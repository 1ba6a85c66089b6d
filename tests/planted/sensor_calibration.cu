// Evaluates a long polynomial of calibration coefficients at every sample.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kTerms = 64;
__constant__ float coefficients[kTerms];

// class: compute
__global__ void calibrate(const float *__restrict__ raw, float *__restrict__ corrected, int samples, int passes)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= samples) return;
    float x = raw[i], value = 0.0f;
    for (int pass = 0; pass < passes; ++pass) {
        for (int term = kTerms - 1; term >= 0; --term)
            value = __fadd_rn(__fmul_rn(value, x), coefficients[term]);  // expect: non-fused-arithmetic
        value = fminf(fmaxf(value, -1.0f), 1.0f);
    }
    corrected[i] = value;
}

int main(int argc, char **argv)
{
    int samples = argc > 1 ? atoi(argv[1]) : 1 << 23, passes = argc > 2 ? atoi(argv[2]) : 4;
    std::vector<float> raw(samples), table(kTerms), got(samples);
    for (int i = 0; i < samples; ++i) raw[i] = float(i % 1999) / 2000.0f;
    for (int t = 0; t < kTerms; ++t) table[t] = (t % 3 - 1) * 0.1f;
    float *in, *out;
    cudaMalloc(&in, samples * sizeof(float));
    cudaMalloc(&out, samples * sizeof(float));
    cudaMemcpy(in, raw.data(), samples * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(coefficients, table.data(), kTerms * sizeof(float));
    for (int repeat = 0; repeat < 5; ++repeat)
        calibrate<<<(samples + 255) / 256, 256>>>(in, out, samples, passes);
    cudaMemcpy(got.data(), out, samples * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < samples; i += 9973) {
        double value = 0;
        for (int p = 0; p < passes; ++p) {
            for (int t = kTerms - 1; t >= 0; --t) value = value * raw[i] + table[t];
            value = fmin(fmax(value, -1.0), 1.0);
        }
        if (fabs(got[i] - value) > 1e-3) return printf("sample %d: %f, not %f\n", i, got[i], value), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
