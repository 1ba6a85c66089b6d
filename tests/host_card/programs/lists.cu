// SPDX-License-Identifier: Apache-2.0
// Keys in groups, stamps some of which may be missing, places in a row of pixels, neighbours with a kind of bond beside
// their index, and atoms of one kind: what each comes to.
#include <cuda_runtime.h>

#include <climits>
#include <cstdio>
#include <vector>

struct Bonds {
    float scale[4];
};

__global__ void collect(const unsigned* keys, const long long* stamps, const float* places, const float* pixels,
                        const int* neighbours, const int* kinds, const float* table, float* out, int n, int width,
                        Bonds bonds) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int group = i - i % 8;
    int none = 0;
    for (int k = group; k < group + 8; ++k) none += (keys[k] >> 16 & 15) == 0;
    out[i] = none;
    const long long stamp = stamps[i];
    out[n + i] = stamp == LLONG_MIN ? -1.0f : float(stamp / 86400 % 7);
    const float at = places[i], left = floorf(at), part = at - left;
    const int from = min(max(int(left), 0), width - 1), to = min(max(int(left) + 1, 0), width - 1);
    out[2 * n + i] = pixels[from] * (1 - part) + pixels[to] * part;
    const unsigned entry = neighbours[i];
    out[3 * n + i] = bonds.scale[entry >> 30] * pixels[(entry & 0x3fffffff) % width];
    out[4 * n + i] = table[kinds[i]];
}

int main() {
    const int n = 1600, width = 200;
    std::vector<unsigned> keys(n);
    std::vector<long long> stamps(n);
    std::vector<float> places(n), pixels(width), table(1, 1.5f), out(5 * n);
    std::vector<int> neighbours(n), kinds(n, 0);
    for (int i = 0; i < n; ++i) {
        keys[i] = (i + 1) * 2654435761u >> 8;
        stamps[i] = 86400ll * 20000 + i * 70001ll;
        places[i] = 20.25f + (i * 37 % 1500) * 0.1f;
        neighbours[i] = i * 7 % width;
    }
    for (int k = 0; k < width; ++k) pixels[k] = 0.5f + (k * 31 % 47) * 0.125f;
    unsigned* d_keys;
    long long* d_stamps;
    float *d_places, *d_pixels, *d_table, *d_out;
    int *d_neighbours, *d_kinds;
    cudaMalloc(&d_keys, n * sizeof(unsigned));
    cudaMalloc(&d_stamps, n * sizeof(long long));
    cudaMalloc(&d_places, n * sizeof(float));
    cudaMalloc(&d_pixels, width * sizeof(float));
    cudaMalloc(&d_table, sizeof(float));
    cudaMalloc(&d_out, out.size() * sizeof(float));
    cudaMalloc(&d_neighbours, n * sizeof(int));
    cudaMalloc(&d_kinds, n * sizeof(int));
    cudaMemcpy(d_keys, keys.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice);
    cudaMemcpy(d_stamps, stamps.data(), n * sizeof(long long), cudaMemcpyHostToDevice);
    cudaMemcpy(d_places, places.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_pixels, pixels.data(), width * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_table, table.data(), sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_neighbours, neighbours.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(d_kinds, kinds.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    const Bonds bonds = {{1, 0.25f, 0.5f, 0}};
    for (int turn = 0; turn < 3; ++turn)
        collect<<<(n + 127) / 128, 128>>>(d_keys, d_stamps, d_places, d_pixels, d_neighbours, d_kinds, d_table, d_out, n,
                                          width, bonds);
    cudaMemcpy(out.data(), d_out, out.size() * sizeof(float), cudaMemcpyDeviceToHost);
    double sum = 0;
    for (float x : out) sum += x;
    std::printf("%f %s\n", sum, cudaGetErrorString(cudaGetLastError()));
}
