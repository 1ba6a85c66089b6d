// Ordinary code beside the hot path: what is told of it, and how loudly. A line without a mark gets nothing.
#include <cstdio>

__device__ float warp_sum(float v)
{
    for (int s = 16; s > 0; s >>= 1) v += __shfl_down_sync(~0u, v, s);
    return v;
}

// One lane writes what its warp summed up: no second path, no lane to share it with.
__global__ void row_norms(float *__restrict__ norms, float *__restrict__ inverse, const float *__restrict__ rows,
                          int columns)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    float x = lane < columns ? rows[(size_t)row * columns + lane] : 0.0f;
    float sum = warp_sum(x * x);
    if (lane == 0) {
        float norm = sqrtf(sum);
        norms[row] = norm;
        inverse[row] = norm > 0.0f ? 1.0f / norm : 0.0f;
    }
}

// A few bytes that the wide loop leaves over.
__global__ void brightness(unsigned *__restrict__ sums, const unsigned char *__restrict__ image, int columns, int skipped)
{
    __shared__ unsigned total;
    const unsigned char *row = image + (size_t)blockIdx.x * columns;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned head = 0;
        for (int x = 0; x < min(4 - skipped, columns); ++x) head += row[x];  // told: lone-thread-loop information
        atomicAdd(&total, head);
    }
    const unsigned *words = (const unsigned *)(row + 4 - skipped);
    unsigned own = 0;
    for (int x = threadIdx.x; x < (columns - 4 + skipped) / 4; x += blockDim.x) own += __dp4a(words[x], 0x01010101u, 0u);
    atomicAdd(&total, own);
    __syncthreads();
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

void run_brightness(unsigned *sums, const unsigned char *image, int rows, int columns, int skipped)
{
    brightness<<<rows, 128>>>(sums, image, columns, skipped);
}

// A demonstration: the print is all its time.
__global__ void show(const float *values, int pitch)
{
    float v = values[threadIdx.x * pitch];  // told: uncoalesced-global-read information
    printf("thread %d: %f\n", threadIdx.x, v);
}

void run_show(const float *values) { show<<<2000, 256>>>(values, 4096); }

// The same read where only a fault prints.
__global__ void checked(float *sums, const float *values, int pitch)
{
    float v = values[(blockIdx.x * blockDim.x + threadIdx.x) * pitch];  // told: uncoalesced-global-read warning
    if (isnan(v)) printf("thread %d: no number\n", threadIdx.x);
    sums[blockIdx.x * blockDim.x + threadIdx.x] = v;
}

void run_checked(float *sums, const float *values) { checked<<<2000, 256>>>(sums, values, 4096); }

// One block on purpose: how many elements there are only the caller knows.
__global__ void scale_diagonal(float *__restrict__ packed, float by, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) packed[i] *= by;
}

void run_scale(float *packed, float by, int n)
{
    scale_diagonal<<<1, 1024>>>(packed, by, n);  // told: grid-too-small information
}

// A launch beside copies that the host waits for.
__global__ void step(float *state) { state[threadIdx.x] *= 0.5f; }

void run_steps(float *host, float *state, int steps)
{
    for (int i = 0; i < steps; ++i) {
        cudaMemcpy(state, host, 256 * sizeof(float), cudaMemcpyDefault);
        step<<<1, 256>>>(state);
    }
}
