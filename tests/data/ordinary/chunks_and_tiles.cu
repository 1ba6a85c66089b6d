// Chunks that a thread walks beside larger records, indices by a remainder, products in indices.
#include <cuda_runtime.h>

struct Block {
    double m[18];
};

// The indices are few of the bytes: a warp a chunk would leave the blocks apart.
__global__ void eliminate(double *sums, const Block *blocks, const int *start, const int *rows, int columns)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    for (int i = start[column]; i < start[column + 1]; ++i) {
        double sum = 0.0;
        for (int k = 0; k < 18; ++k) sum += blocks[i].m[k] * k;
        atomicAdd(&sums[rows[i]], sum);  // told: per-thread-chunks information
    }
}

// Here they are most of it.
__global__ void multiply(float *out, const float *values, const int *start, const int *columns, const float *in,
                         int rows)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = start[row]; i < start[row + 1]; ++i)
        sum += values[i] * in[columns[i]];  // told: per-thread-chunks information
    out[row] = sum;
}

// Where threads meet follows from the distance, which nobody knows.
__global__ void probe(float *out, const float *table, int distance)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, at = threadIdx.x * distance % 1024;
    for (int k = 0; k < 100; ++k) out[i] = out[i] + table[at + k];
}

// The extremes of a block's boxes: what is multiplied and added up are indices.
__global__ void bounds(float *low, const float *points, int count)
{
    __shared__ float least[256 * 3];
    int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
    for (int k = 0; k < 3; ++k) least[t * 3 + k] = i < count ? points[k * count + i] : 3e38f;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (t < s) {
            least[t * 3 + 0] = fminf(least[t * 3 + 0], least[(t + s) * 3 + 0]);
            least[t * 3 + 1] = fminf(least[t * 3 + 1], least[(t + s) * 3 + 1]);
            least[t * 3 + 2] = fminf(least[t * 3 + 2], least[(t + s) * 3 + 2]);
        }
        __syncthreads();  // told: barrier-heavy information
    }
    if (t < 3) low[blockIdx.x * 3 + t] = least[t];
}

// A branch that divides the block is one cause, however many barriers stand in it.
__global__ void smooth(float *out, const float *in, int count)
{
    __shared__ float near[256];
    int t = threadIdx.x;
    if (t < 200) {
        near[t] = in[blockIdx.x * 256 + t];
        __syncthreads();  // told: divergent-barrier warning
        float sum = near[t] + near[t > 0 ? t - 1 : 0];
        __syncthreads();
        near[t] = sum;
        out[blockIdx.x * 256 + t] = near[t];
    }
}

// Every thread adds once, behind a loop of any length.
__global__ void hits(unsigned long long *total, int rounds)
{
    unsigned seed = blockIdx.x * blockDim.x + threadIdx.x, found = 0;
    for (int r = 0; r < rounds; ++r) {
        seed = seed * 1664525u + 1013904223u;
        found += seed >> 31;
    }
    atomicAdd(total, (unsigned long long)found);
}

void run(double *sums, const Block *blocks, const int *start, const int *rows, float *out, const float *values,
         const int *columns, const float *in, unsigned long long *total, int count, int distance)
{
    eliminate<<<(count + 255) / 256, 256>>>(sums, blocks, start, rows, count);
    multiply<<<(count + 255) / 256, 256>>>(out, values, start, columns, in, count);
    bounds<<<(count + 255) / 256, 256>>>(out, in, count);
    smooth<<<count / 256, 256>>>(out, in, count);
    hits<<<256, 256>>>(total, count);
    probe<<<(count + 1023) / 1024, 1024>>>(out, in, distance);
}
