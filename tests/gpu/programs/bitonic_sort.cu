// Bitonic sort of keys: one launch per step with other arguments each, all of one shape, in place.
#include <algorithm>
#include <cstdio>
#include <vector>

__global__ void compare_exchange(unsigned *keys, int distance, int run) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ distance;
    if (other <= i) return;
    const unsigned a = keys[i], b = keys[other];
    if ((a > b) == ((i & run) == 0)) {
        keys[i] = b;
        keys[other] = a;
    }
}

int main() {
    const int count = 1 << 18;
    std::vector<unsigned> keys(count);
    unsigned state = 12345;
    for (unsigned &k : keys) k = state = state * 1664525u + 1013904223u;
    unsigned *device;
    cudaMalloc(&device, count * 4);
    cudaMemcpy(device, keys.data(), count * 4, cudaMemcpyHostToDevice);
    for (int run = 2; run <= count; run *= 2)
        for (int distance = run / 2; distance; distance /= 2) compare_exchange<<<count / 256, 256>>>(device, distance, run);
    if (cudaMemcpy(keys.data(), device, count * 4, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%s\n", std::is_sorted(keys.begin(), keys.end()) ? "sorted" : "not sorted");
    return !std::is_sorted(keys.begin(), keys.end());
}
