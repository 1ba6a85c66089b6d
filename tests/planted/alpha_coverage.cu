// Counts how much of each tile of a float RGBA image is covered, from the alpha channel alone.
#include <cstdio>
#include <cstdlib>

namespace cover {

// class: memory
__global__ void tile_alpha(const float *rgba, float *partial, unsigned pixels)
{
    float covered = 0.f;
    unsigned stride = gridDim.x * blockDim.x;
    for (unsigned p = blockIdx.x * blockDim.x + threadIdx.x; p < pixels; p += stride)
        covered += rgba[4 * p + 3];  // expect: strided-field-access
    for (int d = 16; d; d >>= 1) covered += __shfl_xor_sync(~0u, covered, d);
    if ((threadIdx.x & 31) == 0) partial[(blockIdx.x * blockDim.x + threadIdx.x) >> 5] = covered;
}

}  // namespace cover

int main()
{
    const unsigned pixels = 7680u * 4320u, blocks = 1056, warps = blocks * 256 / 32;
    float *host = static_cast<float *>(malloc(pixels * 16ull));
    double want = 0;
    for (unsigned p = 0; p < pixels; ++p) {
        for (int c = 0; c < 3; ++c) host[4ull * p + c] = 9.f;
        host[4ull * p + 3] = (p % 5) * 0.25f;
        want += (p % 5) * 0.25;
    }
    float *rgba, *partial;
    cudaMalloc(&rgba, pixels * 16ull);
    cudaMalloc(&partial, warps * 4);
    cudaMemcpy(rgba, host, pixels * 16ull, cudaMemcpyHostToDevice);
    for (int n = 0; n < 5; ++n) cover::tile_alpha<<<blocks, 256>>>(rgba, partial, pixels);
    float *sums = static_cast<float *>(malloc(warps * 4));
    cudaMemcpy(sums, partial, warps * 4, cudaMemcpyDeviceToHost);
    double got = 0;
    for (unsigned w = 0; w < warps; ++w) got += sums[w];
    printf("%s\n", got / want > 0.999 && got / want < 1.001 ? "ok" : "wrong");
    return !(got / want > 0.999 && got / want < 1.001);
}
