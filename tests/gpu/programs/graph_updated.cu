// A wave on a membrane: one executable graph, whose kernel nodes get other buffers and another time step before each
// launch, and which is brought up to date as a whole from a new capture half-way.
#include <cstdio>
#include <utility>

__global__ void push(const float *now, const float *before, float *then, int side, float speed, float step) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, i = y * side + x;
    if (x < 1 || y < 1 || x >= side - 1 || y >= side - 1) return;
    const float bend = now[i - 1] + now[i + 1] + now[i - side] + now[i + side] - 4 * now[i];
    then[i] = 2 * now[i] - before[i] + speed * speed * step * step * bend;
}

__global__ void pluck(float *now, int side, float height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x < side / 2) now[side / 2 * side + side / 4 + x] += height;
}

int main() {
    const int side = 1024, n = side * side;
    float *now, *before, *then;
    for (float **field : {&now, &before, &then}) {
        cudaMalloc(field, n * sizeof(float));
        cudaMemset(*field, 0, n * sizeof(float));
    }
    const dim3 block(32, 8), grid(side / 32, side / 8);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    auto record = [&](float height, float step) {
        cudaGraph_t graph;
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
        pluck<<<side / 2 / 128, 128, 0, stream>>>(now, side, height);
        push<<<grid, block, 0, stream>>>(now, before, then, side, 0.5f, step);
        cudaStreamEndCapture(stream, &graph);
        return graph;
    };
    cudaGraph_t graph = record(1.0f, 0.4f);
    cudaGraphExec_t runnable;
    if (cudaGraphInstantiate(&runnable, graph, 0) != cudaSuccess) return 1;
    size_t count = 2;
    cudaGraphNode_t nodes[2], root;
    if (cudaGraphGetNodes(graph, nodes, &count) != cudaSuccess || count != 2) return 2;
    count = 1;
    if (cudaGraphGetRootNodes(graph, &root, &count) != cudaSuccess || count != 1) return 3;
    const cudaGraphNode_t pushing = nodes[nodes[0] == root];

    for (int t = 0; t < 8; ++t) {
        if (t == 4) {
            cudaGraph_t other = record(0.5f, 0.3f);
            cudaGraphExecUpdateResultInfo result;
            if (cudaGraphExecUpdate(runnable, other, &result) != cudaSuccess) return 4;
            cudaGraphDestroy(other);
        } else if (t) {
            int size = side;
            float speed = 0.5f, step = 0.4f - 0.01f * t;
            void *arguments[] = {&now, &before, &then, &size, &speed, &step};
            cudaKernelNodeParams parameters = {};
            parameters.func = reinterpret_cast<void *>(push);
            parameters.gridDim = grid;
            parameters.blockDim = block;
            parameters.kernelParams = arguments;
            if (cudaGraphExecKernelNodeSetParams(runnable, pushing, &parameters) != cudaSuccess) return 5;
        }
        cudaGraphLaunch(runnable, stream);
        std::swap(before, now);
        std::swap(now, then);
    }
    float middle;
    if (cudaStreamSynchronize(stream) != cudaSuccess) return 6;
    if (cudaMemcpy(&middle, now + n / 2 + side / 2, sizeof middle, cudaMemcpyDeviceToHost) != cudaSuccess) return 7;
    std::printf("%.5f\n", middle);
    return 0;
}
