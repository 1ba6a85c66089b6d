// Calibrates sensor frames of 999 samples that are stored back to back behind a one-word header each.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int SAMPLES = 999, HEADER = 1, FRAME = SAMPLES + HEADER + 1;

// class: memory
__global__ void calibrate(const float *__restrict__ raw, float *__restrict__ fixed, float gain, float offset)
{
    int lane = threadIdx.x, segment = threadIdx.y;
    int frame = blockIdx.x;
    for (int s = segment * 8 + lane; s < SAMPLES; s += 32 * 8)
        fixed[frame * FRAME + HEADER + s] = raw[frame * FRAME + HEADER + s] * gain + offset;  // expect: misaligned-access
}

int main()
{
    const int frames = 1 << 17;
    std::vector<float> host(size_t(frames) * FRAME, 1.5f);
    float *raw, *fixed;
    cudaMalloc(&raw, host.size() * 4);
    cudaMalloc(&fixed, host.size() * 4);
    cudaMemcpy(raw, host.data(), host.size() * 4, cudaMemcpyHostToDevice);
    for (int i = 0; i < 4; ++i) calibrate<<<frames, dim3(8, 32)>>>(raw, fixed, 2.0f, 0.5f);
    cudaMemcpy(host.data(), fixed, host.size() * 4, cudaMemcpyDeviceToHost);
    for (int f = 0; f < frames; f += 211)
        for (int s = 0; s < SAMPLES; ++s)
            if (fabsf(host[size_t(f) * FRAME + HEADER + s] - 3.5f) > 1e-6f) return printf("frame %d\n", f), 1;
    puts("ok");
    return 0;
}
