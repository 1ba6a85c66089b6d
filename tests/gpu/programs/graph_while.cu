// A loop that ends on the card: Newton's steps in the body of a conditional node until all roots are close.
#include <cstdio>

__global__ void improve(float *root, const float *of, int n, int *open) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float better = 0.5f * (root[i] + of[i] / root[i]);
    if (fabsf(better - root[i]) > 1e-4f * better) atomicAdd(open, 1);
    root[i] = better;
}

__global__ void decide(cudaGraphConditionalHandle again, int *open, int *rounds) {
    cudaGraphSetConditional(again, *open > 0 && ++*rounds < 50);
    *open = 0;
}

__global__ void invert(float *root, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) root[i] = 1 / root[i];
}

int main() {
    const int n = 1 << 20;
    float *root, *of, first;
    int *counters;
    cudaMalloc(&root, n * sizeof(float));
    cudaMalloc(&of, n * sizeof(float));
    cudaMalloc(&counters, 2 * sizeof(int));
    cudaMemset(root, 0x41, n * sizeof(float));
    cudaMemset(of, 0x42, n * sizeof(float));
    cudaMemset(counters, 0, 2 * sizeof(int));

    cudaGraph_t graph;
    cudaGraphCreate(&graph, 0);
    cudaGraphConditionalHandle again;
    if (cudaGraphConditionalHandleCreate(&again, graph, 1, cudaGraphCondAssignDefault) != cudaSuccess) return 1;
    cudaGraphNodeParams loop = {};
    loop.type = cudaGraphNodeTypeConditional;
    loop.conditional.handle = again;
    loop.conditional.type = cudaGraphCondTypeWhile;
    loop.conditional.size = 1;
    cudaGraphNode_t node, last;
#if CUDART_VERSION >= 13000
    if (cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &loop) != cudaSuccess) return 2;
#else
    if (cudaGraphAddNode(&node, graph, nullptr, 0, &loop) != cudaSuccess) return 2;
#endif
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaGraph_t body = loop.conditional.phGraph_out[0];
    cudaStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal);
    improve<<<n / 256, 256, 0, stream>>>(root, of, n, counters);
    decide<<<1, 1, 0, stream>>>(again, counters, counters + 1);
    if (cudaStreamEndCapture(stream, &body) != cudaSuccess) return 3;
    int count = n;
    void *arguments[] = {&root, &count};
    cudaKernelNodeParams parameters = {};
    parameters.func = reinterpret_cast<void *>(invert);
    parameters.gridDim = dim3(n / 256);
    parameters.blockDim = dim3(256);
    parameters.kernelParams = arguments;
    if (cudaGraphAddKernelNode(&last, graph, &node, 1, &parameters) != cudaSuccess) return 4;
    cudaGraphExec_t runnable;
    if (cudaGraphInstantiate(&runnable, graph, 0) != cudaSuccess) return 5;
    for (int i = 0; i < 3; ++i) cudaGraphLaunch(runnable, stream);
    if (cudaStreamSynchronize(stream) != cudaSuccess) return 6;
    cudaMemcpy(&first, root, sizeof first, cudaMemcpyDeviceToHost);
    std::printf("%.5f\n", first);
    return 0;
}
