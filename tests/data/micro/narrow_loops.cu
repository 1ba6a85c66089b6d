// Loads of a few bytes a thread.
#include <cuda_fp16.h>

struct Task {
    const void *from;
    void *to;
    int count;
};

// Four bytes a thread keep device memory busy where the card is full.
__global__ void doubled(float *to, const float *from, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        to[i] = 2.0f * from[i];
}

// Two do not, whatever the block.
__global__ void halved(Task task)
{
    const __half *from = static_cast<const __half *>(task.from);
    __half *to = static_cast<__half *>(task.to);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < task.count) to[i] = __hmul(from[i], __float2half(0.5f));  // expect: scalar-access
}

void run(float *a, float *b, Task task, int n, int block)
{
    doubled<<<1056, 256>>>(a, b, n);
    halved<<<(n + block - 1) / block, block>>>(task);
}
