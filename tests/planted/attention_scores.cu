// Scores of queries against keys: a product of two half-precision matrices, the second one transposed.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_fp16.h>
#include <vector>

constexpr int kTile = 64, kDepth = 32;

// class: compute
__global__ void score_tiles(const __half *__restrict__ queries, const __half *__restrict__ keys,
                            float *__restrict__ scores, int count, int width)
{
    __shared__ __half query[kDepth][kTile], key[kDepth][kTile];
    int row = threadIdx.y * 4, column = threadIdx.x * 4, lane = threadIdx.y * 16 + threadIdx.x;
    float sum[4][4] = {};
    for (int first = 0; first < width; first += kDepth) {
        for (int i = lane; i < kTile * kDepth; i += 256) {
            int depth = i / kTile, item = i % kTile;
            query[depth][item] = queries[(size_t)(first + depth) * count + blockIdx.y * kTile + item];
            key[depth][item] = keys[(size_t)(first + depth) * count + blockIdx.x * kTile + item];
        }
        __syncthreads();
        for (int d = 0; d < kDepth; ++d)
            for (int y = 0; y < 4; ++y)
                for (int x = 0; x < 4; ++x)
                    sum[y][x] += __half2float(query[d][row + y]) * __half2float(key[d][column + x]);  // expect: tensor-cores-unused
        __syncthreads();
    }
    for (int y = 0; y < 4; ++y)
        for (int x = 0; x < 4; ++x)
            scores[(size_t)(blockIdx.y * kTile + row + y) * count + blockIdx.x * kTile + column + x] = sum[y][x];
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 4096, width = argc > 2 ? atoi(argv[2]) : 1024;
    std::vector<__half> q((size_t)count * width), k(q.size());
    for (size_t i = 0; i < q.size(); ++i) {
        q[i] = __float2half(float(int(i * 2654435761u >> 20) % 9 - 4) / 8.0f);
        k[i] = __float2half(float(int(i * 2246822519u >> 20) % 7 - 3) / 8.0f);
    }
    __half *queries, *keys;
    float *scores;
    cudaMalloc(&queries, q.size() * sizeof(__half));
    cudaMalloc(&keys, k.size() * sizeof(__half));
    cudaMalloc(&scores, (size_t)count * count * sizeof(float));
    cudaMemcpy(queries, q.data(), q.size() * sizeof(__half), cudaMemcpyHostToDevice);
    cudaMemcpy(keys, k.data(), k.size() * sizeof(__half), cudaMemcpyHostToDevice);
    for (int repeat = 0; repeat < 5; ++repeat)
        score_tiles<<<dim3(count / kTile, count / kTile), dim3(16, 16)>>>(queries, keys, scores, count, width);
    std::vector<float> got(count);
    for (int r = 0; r < count; r += 1021) {
        cudaMemcpy(got.data(), scores + (size_t)r * count, count * sizeof(float), cudaMemcpyDeviceToHost);
        for (int c = 0; c < count; c += 509) {
            double want = 0;
            for (int d = 0; d < width; ++d)
                want += (double)__half2float(q[(size_t)d * count + r]) * __half2float(k[(size_t)d * count + c]);
            if (fabs(got[c] - want) > 1e-2) return printf("score %d %d: %f, not %f\n", r, c, got[c], want), 1;
        }
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
