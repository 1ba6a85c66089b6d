// A graph made node by node: the kernel is never launched by a call of its own.
#include <cstdio>

__global__ void grow(float *x, int n, float by) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * by + 1.0f;
}

int main() {
    int n = 1 << 20;
    float *x, by = 1.01f, first;
    cudaMalloc(&x, n * sizeof(float));
    cudaMemset(x, 0, n * sizeof(float));
    cudaGraph_t graph;
    cudaGraphCreate(&graph, 0);
    void *arguments[] = {&x, &n, &by};
    cudaKernelNodeParams parameters = {};
    parameters.func = reinterpret_cast<void *>(grow);
    parameters.gridDim = dim3(n / 256);
    parameters.blockDim = dim3(256);
    parameters.kernelParams = arguments;
    cudaGraphNode_t one, two;
    if (cudaGraphAddKernelNode(&one, graph, nullptr, 0, &parameters) != cudaSuccess) return 1;
    if (cudaGraphAddKernelNode(&two, graph, &one, 1, &parameters) != cudaSuccess) return 2;
    cudaGraphExec_t runnable;
    if (cudaGraphInstantiate(&runnable, graph, 0) != cudaSuccess) return 3;
    for (int i = 0; i < 10; ++i) cudaGraphLaunch(runnable, nullptr);
    if (cudaMemcpy(&first, x, sizeof first, cudaMemcpyDeviceToHost) != cudaSuccess) return 4;
    std::printf("%.3f\n", first);
    return 0;
}
