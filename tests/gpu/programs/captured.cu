// The kernel runs at once, and again inside a graph made by stream capture. argv[1] = "only": only inside.
#include <cstdio>
#include <cstring>

__global__ void step(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * 1.01f + 1.0f;
}

int main(int argc, char** argv) {
    const bool only = argc > 1 && !std::strcmp(argv[1], "only");
    const int n = 1 << 20;
    float* x;
    cudaMalloc(&x, n * 4);
    cudaMemset(x, 0, n * 4);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaGraph_t graph;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    step<<<n / 256, 256, 0, stream>>>(x, n);
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess) return 2;
    cudaGraphExec_t runnable;
    if (cudaGraphInstantiate(&runnable, graph, 0) != cudaSuccess) return 3;
    cudaGraphLaunch(runnable, stream);
    if (!only) step<<<n / 256, 256, 0, stream>>>(x, n);
    if (cudaStreamSynchronize(stream) != cudaSuccess) return 4;
    float first;
    cudaMemcpy(&first, x, 4, cudaMemcpyDeviceToHost);
    std::printf("%.4f\n", first);
    return 0;
}
