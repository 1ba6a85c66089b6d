// Host loops that wait in every iteration, that launch too little, and that do neither.
#define CHECK(call) do { if ((call) != cudaSuccess) return; } while (0)
constexpr int kCells = 1 << 14, kLarge = 1 << 28;

__global__ void small_step(float *__restrict__ out, const float *__restrict__ in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] * 0.5f;
}

__global__ void tiny_step(float *__restrict__ out, const float *__restrict__ in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] * 0.5f;
}

__global__ void large_step(float *__restrict__ out, const float *__restrict__ in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] * 0.5f;
}

__global__ void timed_step(float *__restrict__ out, const float *__restrict__ in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] * 0.5f;
}

static void advance(float *a, float *b)
{
    small_step<<<kCells / 256, 256>>>(a, b);
    CHECK(cudaDeviceSynchronize());  // expect: host-sync-in-loop
}

void run(float *a, float *b, int steps, cudaEvent_t before, cudaEvent_t after)
{
    for (int step = 0; step < steps; ++step) advance(a, b);
    for (int step = 0; step < steps; ++step) {
        tiny_step<<<4, 256>>>(a, b);  // expect: launch-overhead
    }
    for (int step = 0; step < steps; ++step) {
        large_step<<<kLarge / 256, 256>>>(a, b);
        cudaDeviceSynchronize();
    }
    for (int repeat = 0; repeat < steps; ++repeat) {
        cudaEventRecord(before);
        timed_step<<<kCells / 256, 256>>>(a, b);
        cudaEventRecord(after);
        cudaEventSynchronize(after);
    }
}
