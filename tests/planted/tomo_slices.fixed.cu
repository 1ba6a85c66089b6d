// Ramp-filters the slices of a tomography scan that does not fit the device: slice by slice, in and out.
#include <cmath>
#include <cstdio>

constexpr int kDetectors = 2048, kAngles = 1024, kSlices = 64;
constexpr size_t kSlice = size_t(kDetectors) * kAngles;
constexpr int kTaps = 33;

__constant__ float ramp[kTaps];

// class: memory
__global__ void filter_rows(float *__restrict__ filtered, const float *__restrict__ raw)
{
    __shared__ float row[256 + kTaps - 1];
    int detector = blockIdx.x * 256 + threadIdx.x;
    const float *line = raw + size_t(blockIdx.y) * kDetectors;
    for (int k = threadIdx.x; k < 256 + kTaps - 1; k += 256) {
        int at = int(blockIdx.x) * 256 + k - kTaps / 2;
        row[k] = at >= 0 && at < kDetectors ? line[at] : 0.0f;
    }
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < kTaps; ++k) sum += ramp[k] * row[threadIdx.x + k];
    filtered[size_t(blockIdx.y) * kDetectors + detector] = sum;
}

int main()
{
    float *sinogram, *projection, *d_raw[2], *d_filtered[2], taps[kTaps];
    cudaMallocHost(&sinogram, kSlices * kSlice * sizeof(float));
    cudaMallocHost(&projection, kSlices * kSlice * sizeof(float));
    for (size_t i = 0; i < kSlices * kSlice; ++i) sinogram[i] = float(i % 251);
    for (int k = 0; k < kTaps; ++k) taps[k] = k == kTaps / 2 ? 0.25f : -0.01f * (k & 1);
    cudaMemcpyToSymbol(ramp, taps, sizeof(taps));
    cudaStream_t work[2];
    for (int s = 0; s < 2; ++s) {
        cudaMalloc(&d_raw[s], kSlice * sizeof(float));
        cudaMalloc(&d_filtered[s], kSlice * sizeof(float));
        cudaStreamCreate(&work[s]);
    }

    dim3 grid(kDetectors / 256, kAngles);
    for (int slice = 0; slice < kSlices; ++slice) {
        int s = slice % 2;
        cudaMemcpyAsync(d_raw[s], sinogram + slice * kSlice, kSlice * sizeof(float),
                        cudaMemcpyHostToDevice, work[s]);
        filter_rows<<<grid, 256, 0, work[s]>>>(d_filtered[s], d_raw[s]);
        cudaMemcpyAsync(projection + slice * kSlice, d_filtered[s], kSlice * sizeof(float),
                        cudaMemcpyDeviceToHost, work[s]);
    }
    cudaDeviceSynchronize();
    for (size_t i = kTaps; i < kSlices * kSlice; i += 99991) {
        if (i % kDetectors < kTaps || i % kDetectors > kDetectors - kTaps) continue;
        float want = 0.0f;
        for (int k = 0; k < kTaps; ++k) want += taps[k] * sinogram[i + k - kTaps / 2];
        if (fabsf(projection[i] - want) > 1e-2f) return printf("%zu is %f, not %f\n", i, projection[i], want), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
