// Per-user rating statistics of a dense user-item matrix.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

// class: memory
__global__ void user_moments(const float *__restrict__ ratings, float *__restrict__ mean,
                             float *__restrict__ spread, int users, int items)
{
    int user = blockIdx.x * blockDim.x + threadIdx.x;
    if (user >= users) return;
    float total = 0.0f, squares = 0.0f;
    for (int item = 0; item < items; ++item) {
        float r = ratings[(size_t)user * items + item];  // expect: uncoalesced-global-read
        total += r;
        squares += r * r;
    }
    mean[user] = total / items;
    spread[user] = sqrtf(fmaxf(squares / items - mean[user] * mean[user], 0.0f));
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
        user_moments<<<(users + 255) / 256, 256>>>(ratings, mean, spread, users, items);
    std::vector<float> got(users);
    cudaMemcpy(got.data(), mean, users * sizeof(float), cudaMemcpyDeviceToHost);
    for (int u = 0; u < users; u += 997) {
        double want = 0;
        for (int i = 0; i < items; ++i) want += host[(size_t)u * items + i];
        if (fabs(got[u] - want / items) > 1e-3) return printf("user %d: %f\n", u, got[u]), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
