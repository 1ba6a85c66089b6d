// Per-user rating statistics of a dense user-item matrix.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

// class: memory
__global__ void user_moments(const float *__restrict__ ratings, float *__restrict__ mean,
                             float *__restrict__ spread, int users, int items)
{
    int user = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (user >= users) return;
    float total = 0.0f, squares = 0.0f;
    for (int item = lane; item < items; item += 32) {
        float r = ratings[(size_t)user * items + item];
        total += r;
        squares += r * r;
    }
    for (int s = 16; s > 0; s /= 2) {
        total += __shfl_down_sync(0xffffffff, total, s);
        squares += __shfl_down_sync(0xffffffff, squares, s);
    }
    if (lane == 0) {
        float m = total / items;
        mean[user] = m;
        spread[user] = sqrtf(fmaxf(squares / items - m * m, 0.0f));
    }
}

int main(int argc, char **argv)
{
    int users = argc > 1 ? atoi(argv[1]) : 1 << 18, items = argc > 2 ? atoi(argv[2]) : 512;
    std::vector<float> host((size_t)users * items);
    for (size_t i = 0; i < host.size(); ++i) host[i] = float((i * 2654435761u >> 20) % 11) * 0.5f;
    float *ratings, *mean, *spread;
    cudaMalloc(&ratings, host.size() * sizeof(float));
    cudaMalloc(&mean, users * sizeof(float));
    cudaMalloc(&spread, users * sizeof(float));
    cudaMemcpy(ratings, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice);
    for (int repeat = 0; repeat < 5; ++repeat)
        user_moments<<<(users + 7) / 8, 256>>>(ratings, mean, spread, users, items);
    std::vector<float> got(users);
    cudaMemcpy(got.data(), mean, users * sizeof(float), cudaMemcpyDeviceToHost);
    for (int u = 0; u < users; u += 997) {
        double want = 0;
        for (int i = 0; i < items; ++i) want += host[(size_t)u * items + i];
        if (fabs(got[u] - want / items) > 1e-3) return printf("user %d: %f\n", u, got[u]), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
