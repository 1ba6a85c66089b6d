// Transposed convolution by two with a 4 x 4 kernel, one channel group a block: input and weights staged once.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int kWidth = 512, kHeight = 512, kChannels = 64, kOut = 32;
constexpr int kTileX = 32, kTileY = 8, kPerThread = 8;

// class: compute
__global__ void __launch_bounds__(kTileX *kTileY) upsample(float *__restrict__ out, const float *__restrict__ in,
                                                           const float *__restrict__ weights)
{
    __shared__ float tile[kTileY / 2 + 2][kTileX / 2 + 2];
    __shared__ float taps[kPerThread][4][4];
    const int x = blockIdx.x * kTileX + threadIdx.x, y = blockIdx.y * kTileY + threadIdx.y;
    const int group = blockIdx.z * kPerThread, lane = threadIdx.y * kTileX + threadIdx.x;
    const int left = blockIdx.x * kTileX / 2 - 1, top = blockIdx.y * kTileY / 2 - 1;
    float sums[kPerThread] = {};
    for (int c = 0; c < kChannels; ++c) {
        __syncthreads();
        for (int k = lane; k < (kTileY / 2 + 2) * (kTileX / 2 + 2); k += kTileX * kTileY) {
            const int r = k / (kTileX / 2 + 2), s = k % (kTileX / 2 + 2);
            const int iy = top + r, ix = left + s;
            const bool inside = iy >= 0 && ix >= 0 && iy < kHeight && ix < kWidth;
            tile[r][s] = inside ? in[(size_t(c) * kHeight + iy) * kWidth + ix] : 0.0f;
        }
        if (lane < kPerThread * 16)
            taps[lane / 16][lane / 4 % 4][lane % 4] = weights[(size_t(c) * kOut + group + lane / 16) * 16 + lane % 16];
        __syncthreads();
        const int py = (threadIdx.y + 1) % 2, px = (threadIdx.x + 1) % 2;
        const int r = (threadIdx.y + 1) / 2, s = (threadIdx.x + 1) / 2;
        const float a = tile[r][s], b = tile[r][s + 1], d = tile[r + 1][s], e = tile[r + 1][s + 1];
#pragma unroll
        for (int o = 0; o < kPerThread; ++o)
            sums[o] += a * taps[o][py + 2][px + 2] + b * taps[o][py + 2][px] + d * taps[o][py][px + 2] +
                       e * taps[o][py][px];
    }
#pragma unroll
    for (int o = 0; o < kPerThread; ++o)
        out[(size_t(group + o) * 2 * kHeight + y) * 2 * kWidth + x] = sums[o];
}

int main()
{
    std::vector<float> in(size_t(kChannels) * kHeight * kWidth), weights(size_t(kChannels) * kOut * 16);
    for (size_t i = 0; i < in.size(); ++i) in[i] = 0.01f * (i % 13);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = 0.1f * (i % 7) - 0.3f;
    const size_t outs = size_t(kOut) * 4 * kHeight * kWidth;
    float *d_in, *d_out, *d_weights;
    cudaMalloc(&d_in, in.size() * sizeof(float));
    cudaMalloc(&d_out, outs * sizeof(float));
    cudaMalloc(&d_weights, weights.size() * sizeof(float));
    cudaMemcpy(d_in, in.data(), in.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_weights, weights.data(), weights.size() * sizeof(float), cudaMemcpyHostToDevice);
    dim3 grid(2 * kWidth / kTileX, 2 * kHeight / kTileY, kOut / kPerThread);
    for (int repeat = 0; repeat < 5; ++repeat) upsample<<<grid, dim3(kTileX, kTileY)>>>(d_out, d_in, d_weights);
    std::vector<float> got(outs);
    cudaMemcpy(got.data(), d_out, outs * sizeof(float), cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < outs; i += 1000003) {
        int x = i % (2 * kWidth), y = i / (2 * kWidth) % (2 * kHeight), o = i / (size_t(4) * kWidth * kHeight);
        double want = 0.0;
        for (int c = 0; c < kChannels; ++c)
            for (int v = 0; v < 4; ++v)
                for (int u = 0; u < 4; ++u) {
                    int sy = y + 1 - v, sx = x + 1 - u;
                    if (sy % 2 || sx % 2 || sy < 0 || sx < 0 || sy / 2 >= kHeight || sx / 2 >= kWidth) continue;
                    want += double(in[(size_t(c) * kHeight + sy / 2) * kWidth + sx / 2]) *
                            weights[(size_t(c) * kOut + o) * 16 + v * 4 + u];
                }
        if (fabs(got[i] - want) > 1e-3 + 1e-3 * fabs(want)) return printf("%zu: %f, not %f\n", i, got[i], want), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
