// Integrates the energy that proton beams deposit along their tracks: a running sum over each beam's samples.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int kSamples = 512, kBeams = 1 << 16;

// class: memory
__global__ void __launch_bounds__(kSamples) running_dose(float *__restrict__ dose, const float *__restrict__ deposit)
{
    __shared__ float sum[kSamples];
    int at = threadIdx.x;
    size_t beam = size_t(blockIdx.x) * kSamples;
    sum[at] = deposit[beam + at];
    __syncthreads();
    for (int reach = 1; reach < kSamples; reach *= 2) {
        float before = at >= reach ? sum[at - reach] : 0.0f;
        __syncthreads();  // expect: barrier-heavy
        sum[at] += before;
        __syncthreads();
    }
    dose[beam + at] = sum[at];
}

int main()
{
    std::vector<float> deposit(size_t(kBeams) * kSamples), got(kSamples);
    for (size_t i = 0; i < deposit.size(); ++i) deposit[i] = 0.001f * (i % 37);
    float *d_deposit, *d_dose;
    cudaMalloc(&d_deposit, deposit.size() * sizeof(float));
    cudaMalloc(&d_dose, deposit.size() * sizeof(float));
    cudaMemcpy(d_deposit, deposit.data(), deposit.size() * sizeof(float), cudaMemcpyHostToDevice);
    for (int field = 0; field < 5; ++field) running_dose<<<kBeams, kSamples>>>(d_dose, d_deposit);
    for (int beam = 0; beam < kBeams; beam += 9973) {
        cudaMemcpy(got.data(), d_dose + size_t(beam) * kSamples, kSamples * sizeof(float), cudaMemcpyDeviceToHost);
        double want = 0.0;
        for (int s = 0; s < kSamples; ++s) {
            want += deposit[size_t(beam) * kSamples + s];
            if (fabs(got[s] - want) > 1e-3 * want + 1e-4) return printf("beam %d sample %d\n", beam, s), 1;
        }
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
