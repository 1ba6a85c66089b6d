// Integrates the energy that proton beams deposit along their tracks: a running sum over each beam's samples.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int kSamples = 512, kBeams = 1 << 16;

// class: latency
__global__ void __launch_bounds__(kSamples) running_dose(float *__restrict__ dose, const float *__restrict__ deposit)
{
    __shared__ float total[kSamples / 32];
    int at = threadIdx.x, lane = at % 32, warp = at / 32;
    size_t beam = size_t(blockIdx.x) * kSamples;
    float sum = deposit[beam + at];
    for (int reach = 1; reach < 32; reach *= 2) {
        float before = __shfl_up_sync(0xffffffffu, sum, reach);
        if (lane >= reach) sum += before;
    }
    if (lane == 31) total[warp] = sum;
    __syncthreads();
    float others = lane < warp ? total[lane] : 0.0f;
    for (int reach = 16; reach > 0; reach /= 2) others += __shfl_xor_sync(0xffffffffu, others, reach);
    dose[beam + at] = sum + others;
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
