// Energy of consecutive windows of a seismic trace.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

// class: memory
__global__ void windowEnergy(const float* __restrict__ trace, float* __restrict__ energy, int windowLength)
{
    const int window = blockIdx.x * blockDim.x + threadIdx.x;
    const int start = window * windowLength;
    float e = 0.0f;
    for (int s = start; s < start + windowLength; ++s) {
        const float a = trace[s];  // expect: per-thread-chunks
        e = fmaf(a, a, e);
    }
    energy[window] = e;
}

int main(int argc, char** argv)
{
    const int windows = 1 << 20;
    const int windowLength = argc > 1 ? std::atoi(argv[1]) : 128;
    std::vector<float> trace(size_t(windows) * windowLength);
    for (size_t i = 0; i < trace.size(); ++i) trace[i] = std::sin(0.001f * float(i % 6283));
    float *dTrace, *dEnergy;
    cudaMalloc(&dTrace, trace.size() * sizeof(float));
    cudaMalloc(&dEnergy, windows * sizeof(float));
    cudaMemcpy(dTrace, trace.data(), trace.size() * sizeof(float), cudaMemcpyHostToDevice);
    for (int i = 0; i < 3; ++i) windowEnergy<<<windows / 256, 256>>>(dTrace, dEnergy, windowLength);
    std::vector<float> energy(windows);
    cudaMemcpy(energy.data(), dEnergy, windows * sizeof(float), cudaMemcpyDeviceToHost);
    for (int w = 0; w < windows; w += 511) {
        double want = 0;
        for (int s = 0; s < windowLength; ++s) want += double(trace[size_t(w) * windowLength + s]) * trace[size_t(w) * windowLength + s];
        if (std::fabs(energy[w] - want) > 1e-3 * (want + 1)) { std::printf("window %d\n", w); return 1; }
    }
    std::printf("ok\n");
}
