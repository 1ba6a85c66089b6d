// Chunks that a thread walks beside larger records, indices by a remainder, atomics that every thread goes through.
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
        sum += values[i] * in[columns[i]];  // told: per-thread-chunks warning
    out[row] = sum;
}

// Where threads meet follows from the distance, which nobody knows.
__global__ void probe(float *out, const float *table, int distance)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, at = threadIdx.x * distance % 1024;
    for (int k = 0; k < 100; ++k) out[i] = out[i] + table[at + k];
}

void run(double *sums, const Block *blocks, const int *start, const int *rows, float *out, const float *values,
         const int *columns, const float *in, int count, int distance)
{
    eliminate<<<(count + 255) / 256, 256>>>(sums, blocks, start, rows, count);
    multiply<<<(count + 255) / 256, 256>>>(out, values, start, columns, in, count);
    probe<<<(count + 1023) / 1024, 1024>>>(out, in, distance);
}
