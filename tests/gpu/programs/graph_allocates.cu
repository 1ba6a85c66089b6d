// A captured step that takes its scratch memory from the graph itself.
#include <cstdio>

__global__ void square(const float *in, float *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * in[i];
}

__global__ void settle(float *x, const float *squares, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = 0.5f * x[i] + 0.25f * squares[(i + 1) % n];
}

int main() {
    const int n = 1 << 20;
    float *x, *scratch, first;
    cudaMalloc(&x, n * sizeof(float));
    cudaMemset(x, 0x3e, n * sizeof(float));
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaGraph_t graph;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMallocAsync(&scratch, n * sizeof(float), stream);
    square<<<n / 256, 256, 0, stream>>>(x, scratch, n);
    settle<<<n / 256, 256, 0, stream>>>(x, scratch, n);
    cudaFreeAsync(scratch, stream);
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess) return 1;
    cudaGraphExec_t runnable;
    if (cudaGraphInstantiate(&runnable, graph, 0) != cudaSuccess) return 2;
    for (int i = 0; i < 5; ++i) cudaGraphLaunch(runnable, stream);
    if (cudaStreamSynchronize(stream) != cudaSuccess) return 3;
    cudaMemcpy(&first, x, sizeof first, cudaMemcpyDeviceToHost);
    std::printf("%.6f\n", first);
    return 0;
}
