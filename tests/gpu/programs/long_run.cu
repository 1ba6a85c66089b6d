// One launch takes some twenty milliseconds: blocks of a large loop over few numbers. argv[1]: trips of the loop.
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void iterate(float *x, int trips) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i], w = v + 0.5f;
    for (int k = 0; k < trips; ++k) {
        v = fmaf(v, 0.9999f, 0.00001f);
        w = fmaf(w, 0.9998f, v * 0.0001f);
    }
    x[i] = v + w;
}

int main(int argc, char **argv) {
    const int trips = argc > 1 ? std::atoi(argv[1]) : 1400000, n = 132 * 4 * 256;
    std::vector<float> host(n);
    for (int i = 0; i < n; ++i) host[i] = 0.001f * (i % 1000);
    float *x;
    cudaMalloc(&x, n * sizeof(float));
    cudaMemcpy(x, host.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    for (int i = 0; i < 4; ++i) iterate<<<n / 256, 256>>>(x, trips);
    if (cudaMemcpy(host.data(), x, n * sizeof(float), cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%.5f\n", host[77]);
    return 0;
}
