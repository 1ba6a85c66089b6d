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
        to[i] = 2.0f * from[i];  // hint: aliasing-reload
}

// Two do not, whatever the block.
__global__ void halved(Task task)
{
    const __half *from = static_cast<const __half *>(task.from);
    __half *to = static_cast<__half *>(task.to);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < task.count) to[i] = __hmul(from[i], __float2half(0.5f));  // expect: scalar-access
}

// Every thread loads the same points, one after another, each through a distance of its own.
struct Points {
    const float *at;
    long apart;
    __device__ float of(long i, int axis) const { return at[i * apart + axis]; }
};

__global__ void near(Points from, Points to, int *__restrict__ first, int n, int m, float reach)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = from.of(i, 0), y = from.of(i, 1);
    int found = -1;
    for (int j = 0; j < m && found < 0; ++j) {  // expect: uneven-loops
        float dx = to.of(j, 0) - x, dy = to.of(j, 1) - y;  // expect: missing-cache-reuse
        if (dx * dx + dy * dy < reach) found = j;
    }
    first[i] = found;
}

void more(Points points, int *first, int n, int m)
{
    near<<<4096, 256>>>(points, points, first, n, m, 0.5f);
}

void run(float *a, float *b, Task task, int n, int block)
{
    doubled<<<1056, 256>>>(a, b, n);
    halved<<<(n + block - 1) / block, block>>>(task);
}
