// Byte histogram: a private copy in shared memory, added up at the end.
#include <cstdio>
#include <vector>

__global__ void count_bytes(const uchar4 *data, int count, unsigned *bins) {
    __shared__ unsigned mine[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) mine[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const uchar4 v = data[i];
        atomicAdd(&mine[v.x], 1u);
        atomicAdd(&mine[v.y], 1u);
        atomicAdd(&mine[v.z], 1u);
        atomicAdd(&mine[v.w], 1u);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) atomicAdd(&bins[b], mine[b]);
}

int main() {
    const int bytes = 1 << 24;
    std::vector<unsigned char> text(bytes);
    for (int i = 0; i < bytes; ++i) text[i] = static_cast<unsigned char>((i * 2654435761u >> 24) & (i >> 3));
    uchar4 *data;
    unsigned *bins, zero = 0;
    cudaMalloc(&data, bytes);
    cudaMalloc(&bins, 1024);
    cudaMemset(bins, 0, 1024);
    cudaMemcpy(data, text.data(), bytes, cudaMemcpyHostToDevice);
    for (int i = 0; i < 4; ++i) count_bytes<<<264, 512>>>(data, bytes / 4, bins);
    if (cudaMemcpy(&zero, bins, 4, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%u zeros\n", zero);
    return 0;
}
