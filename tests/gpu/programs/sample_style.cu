// As in the CUDA samples: the count comes from the command line, plain variables hold the block.
#include <cstdio>
#include <cstdlib>

__global__ void add(const float *a, const float *b, float *c, int n)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 5000077;
    float *a, *b, *c;
    cudaMalloc(&b, n * sizeof(float));
    cudaMalloc(&c, n * sizeof(float));
    cudaMalloc(&a, n * sizeof(float));
    cudaMemset(a, 1, n * sizeof(float));
    cudaMemset(b, 2, n * sizeof(float));

    int threadsPerBlock = 64;
    int blocksPerGrid = (n + threadsPerBlock - 1) / threadsPerBlock;
    for (int i = 0; i < 20; ++i) add<<<blocksPerGrid, threadsPerBlock>>>(a, b, c, n);
    std::printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
