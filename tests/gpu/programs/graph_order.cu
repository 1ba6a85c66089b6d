// A kernel that traps unless every node before it in its graph ran once, in order and with the values of this launch:
// a memset, kernels, a host function, a copy and a child graph, one node switched off in turns.
#include <cstdio>

__global__ void multiply(int *state, int by) { *state *= by; }

__global__ void add(int *state, const int *amount) { *state += *amount; }

__global__ void audit(const int *state, int expected, const float *in, float *out, int n) {
    if (*state != expected) __trap();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * 2.0f + 1.0f;
}

void CUDART_CB count(void *counter) { ++*static_cast<int *>(counter); }

cudaKernelNodeParams kernel_node(void *kernel, int blocks, int threads, void **arguments) {
    cudaKernelNodeParams parameters = {};
    parameters.func = kernel;
    parameters.gridDim = dim3(blocks);
    parameters.blockDim = dim3(threads);
    parameters.kernelParams = arguments;
    return parameters;
}

int main() {
    int n = 1 << 20, five = 5, expected = 0;
    int *state, *amount, *launches;
    float *in, *out;
    cudaMalloc(&state, sizeof(int));
    cudaMalloc(&amount, sizeof(int));
    cudaMallocHost(&launches, sizeof(int));
    *launches = 0;
    cudaMalloc(&in, n * sizeof(float));
    cudaMalloc(&out, n * sizeof(float));
    cudaMemset(in, 0x3c, n * sizeof(float));

    void *adding[] = {&state, &amount}, *multiplying[] = {&state, &five}, *auditing[] = {&state, &expected, &in, &out, &n};
    const cudaKernelNodeParams add_node = kernel_node(reinterpret_cast<void *>(add), 1, 1, adding);
    const cudaKernelNodeParams multiply_node = kernel_node(reinterpret_cast<void *>(multiply), 1, 1, multiplying);
    cudaKernelNodeParams audit_node = kernel_node(reinterpret_cast<void *>(audit), n / 256, 256, auditing);
    cudaMemsetParams three = {};
    three.dst = state;
    three.value = 3;
    three.elementSize = 4;
    three.width = three.height = 1;
    cudaHostNodeParams counting = {};
    counting.fn = count;
    counting.userData = launches;

    cudaGraph_t graph, child;
    cudaGraphNode_t set, times, host, copy, within, adds, audits;
    cudaGraphCreate(&child, 0);
    cudaGraphAddKernelNode(&within, child, nullptr, 0, &add_node);
    cudaGraphCreate(&graph, 0);
    cudaGraphAddKernelNode(&audits, graph, nullptr, 0, &audit_node);
    cudaGraphAddHostNode(&host, graph, nullptr, 0, &counting);
    cudaGraphAddMemcpyNode1D(&copy, graph, &host, 1, amount, launches, sizeof(int), cudaMemcpyHostToDevice);
    cudaGraphAddMemsetNode(&set, graph, nullptr, 0, &three);
    cudaGraphAddKernelNode(&times, graph, &set, 1, &multiply_node);
    const cudaGraphNode_t both[] = {times, copy};
    cudaGraphAddChildGraphNode(&adds, graph, both, 2, child);
    // made first, run last
#if CUDART_VERSION >= 13000
    if (cudaGraphAddDependencies(graph, &adds, &audits, nullptr, 1) != cudaSuccess) return 1;
#else
    if (cudaGraphAddDependencies(graph, &adds, &audits, 1) != cudaSuccess) return 1;
#endif
    cudaGraphExec_t runnable;
    if (cudaGraphInstantiate(&runnable, graph, 0) != cudaSuccess) return 2;

    for (int i = 1; i <= 6; ++i) {
        const bool multiplied = i % 2;
        expected = (multiplied ? 15 : 3) + i;
        if (cudaGraphNodeSetEnabled(runnable, times, multiplied) != cudaSuccess) return 3;
        if (cudaGraphExecKernelNodeSetParams(runnable, audits, &audit_node) != cudaSuccess) return 4;
        cudaGraphLaunch(runnable, nullptr);
        if (cudaDeviceSynchronize() != cudaSuccess) return 5;
    }
    std::printf("%d launches\n", *launches);
    return 0;
}
