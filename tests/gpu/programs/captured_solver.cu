// A red-black relaxation captured into a graph and launched until it has settled: two streams forked and joined by
// events, a residual set to zero, summed and copied to the host in every launch.
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

struct Field {
    float *values;
    const float *sources;
    int side;
};

__global__ void relax(Field f, int colour) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, i = y * f.side + x;
    if (x < 1 || y < 1 || x >= f.side - 1 || y >= f.side - 1 || (x + y) % 2 != colour) return;
    f.values[i] = 0.25f * (f.values[i - 1] + f.values[i + 1] + f.values[i - f.side] + f.values[i + f.side] + f.sources[i]);
}

__global__ void residual(Field f, float *most) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, i = y * f.side + x;
    if (x < 1 || y < 1 || x >= f.side - 1 || y >= f.side - 1) return;
    const float off = f.values[i - 1] + f.values[i + 1] + f.values[i - f.side] + f.values[i + f.side] + f.sources[i] - 4 * f.values[i];
    // non-negative floats compare as their bits do
    atomicMax(reinterpret_cast<int *>(most), __float_as_int(fabsf(off)));
}

__global__ void fade(float *history, const float *values, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) history[i] = 0.9f * history[i] + 0.1f * values[i];
}

int main() {
    const int side = 768, n = side * side;
    std::vector<float> sources(n);
    for (int i = 0; i < n; ++i) sources[i] = std::sin(0.01f * (i % side)) * std::cos(0.02f * (i / side));
    float *values, *device_sources, *history, *most, *host_most;
    cudaMalloc(&values, n * sizeof(float));
    cudaMalloc(&device_sources, n * sizeof(float));
    cudaMalloc(&history, n * sizeof(float));
    cudaMalloc(&most, sizeof(float));
    cudaMallocHost(&host_most, sizeof(float));
    cudaMemset(values, 0, n * sizeof(float));
    cudaMemset(history, 0, n * sizeof(float));
    cudaMemcpy(device_sources, sources.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    const Field field{values, device_sources, side};
    const dim3 block(32, 8), grid(side / 32, side / 8);

    cudaStream_t main_stream, beside;
    cudaEvent_t fork, join;
    cudaStreamCreate(&main_stream);
    cudaStreamCreate(&beside);
    cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&join, cudaEventDisableTiming);
    cudaGraph_t graph;
    cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeGlobal);
    for (int sweep = 0; sweep < 4; ++sweep)
        for (int colour = 0; colour < 2; ++colour) relax<<<grid, block, 0, main_stream>>>(field, colour);
    cudaEventRecord(fork, main_stream);
    cudaStreamWaitEvent(beside, fork, 0);
    fade<<<n / 256, 256, 0, beside>>>(history, values, n);
    cudaEventRecord(join, beside);
    cudaMemsetAsync(most, 0, sizeof(float), main_stream);
    residual<<<grid, block, 0, main_stream>>>(field, most);
    cudaMemcpyAsync(host_most, most, sizeof(float), cudaMemcpyDeviceToHost, main_stream);
    cudaStreamWaitEvent(main_stream, join, 0);
    if (cudaStreamEndCapture(main_stream, &graph) != cudaSuccess) return 1;
    cudaGraphExec_t runnable;
    if (cudaGraphInstantiate(&runnable, graph, 0) != cudaSuccess) return 2;
    cudaGraphDestroy(graph);

    int launches = 0;
    do {
        cudaGraphLaunch(runnable, main_stream);
        if (cudaStreamSynchronize(main_stream) != cudaSuccess) return 3;
    } while (++launches < 20 && *host_most > 1e-5f);
    std::printf("%d launches, residual %.3e\n", launches, *host_most);
    return 0;
}
