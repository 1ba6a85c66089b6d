// SPDX-License-Identifier: Apache-2.0
// Tables in shared memory that data indexes: large ones conflict, those of a bank's word each do not.

__device__ __forceinline__ unsigned mixed(const unsigned *table, unsigned x)
{
    return table[x & 255] ^ __byte_perm(table[x >> 8 & 255], 0, 0x2103)  // expect: table-lookups
           ^ __byte_perm(table[x >> 16 & 255], 0, 0x1032) ^ __byte_perm(table[x >> 24], 0, 0x0321);
}

__global__ void rounds(unsigned *out, const unsigned *in, const unsigned *filled, int count)
{
    __shared__ unsigned table[256];
    table[threadIdx.x & 255] = filled[threadIdx.x & 255];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = in[i];
    for (int r = 0; r < count; ++r) x = mixed(table, x) + r;
    out[i] = x;
}

/// Sixteen entries lie in sixteen banks: nothing is said of them.
__global__ void nibbles(float *out, const unsigned *in, const float *filled, int count)
{
    __shared__ float table[16];
    if (threadIdx.x < 16) table[threadIdx.x] = filled[threadIdx.x];
    __syncthreads();
    float sum = 0.0f;
    for (int r = 0; r < count; ++r) {
        unsigned x = in[(blockIdx.x * count + r) * blockDim.x + threadIdx.x];
        for (int k = 0; k < 8; ++k) sum += table[x >> 4 * k & 15];
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/// A list: each step waits for the one before.
__global__ void walks(float *out, const int *next, const float *value, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    int node = i;
    while (node >= 0) {  // expect: uneven-loops
        sum += value[node];  // expect: dependent-loads, expect: indirect-access
        node = next[node];
    }
    out[i] = sum;
}

void launched(unsigned *out, const unsigned *in, const unsigned *filled, float *sums, const float *table,
              const int *next, const float *value, int count)
{
    rounds<<<4096, 256>>>(out, in, filled, count);
    nibbles<<<4096, 256>>>(sums, in, table, count);
    walks<<<4096, 256>>>(sums, next, value, count);
}

/// A copy of the table for each lane: no two of a warp meet in a bank, and the copy is the only thing that is loaded.
__global__ void rounds_of_copies(unsigned *out, const unsigned *in, const unsigned *filled, int count)
{
    __shared__ unsigned table[256][32];
    int lane = threadIdx.x % 32;
    for (int n = threadIdx.x / 32; n < 256; n += blockDim.x / 32) table[n][lane] = filled[n];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = in[i];
    for (int r = 0; r < count; ++r)
        x = (table[x & 255][lane] ^ table[x >> 8 & 255][lane] << 8 ^ table[x >> 16 & 255][lane] << 16 ^ table[x >> 24][lane]) + r;
    out[i] = x;
}

/// Eight copies: four lanes meet at each.
__global__ void rounds_of_few_copies(unsigned *out, const unsigned *in, const unsigned *filled, int count)
{
    __shared__ unsigned table[256][8];
    int lane = threadIdx.x % 8;
    for (int n = threadIdx.x / 8; n < 256; n += blockDim.x / 8) table[n][lane] = filled[n];  // hint: one-load-in-flight
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = in[i];
    for (int r = 0; r < count; ++r)
        x = table[x & 255][lane] ^ __byte_perm(table[x >> 8 & 255][lane], 0, 0x2103)  // expect: table-lookups
            ^ __byte_perm(table[x >> 16 & 255][lane], 0, 0x1032) ^ __byte_perm(table[x >> 24][lane], 0, 0x0321);
    out[i] = x;
}

// A table of each lane's own beside values that all lanes share: data chooses the row, the lane its bank.
const int kWide = 128;
__global__ void own_column(const int* __restrict__ codes, const float* values, const float* entries, float* out, int w) {
    __shared__ float shared_values[kWide];
    __shared__ float mine[8][kWide];
    int lane = threadIdx.x, row = blockIdx.x * 12, column = blockIdx.y * kWide + lane;
    shared_values[lane] = values[row * 10 + lane];
    for (int v = 0; v < 8; ++v) mine[v][lane] = entries[column * 8 + v];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < kWide; k += 8) {
        unsigned code = codes[(row + k) * w + column];
        sum += mine[code & 7][lane] * shared_values[k] + mine[code >> 3 & 7][lane] * shared_values[k + 1];  // expect: small-register-tile
        sum += mine[code >> 6 & 7][lane] * shared_values[k + 2] + mine[code >> 9 & 7][lane] * shared_values[k + 3];
        sum += mine[code >> 12 & 7][lane] * shared_values[k + 4] + mine[code >> 15 & 7][lane] * shared_values[k + 5];
        sum += mine[code >> 18 & 7][lane] * shared_values[k + 6] + mine[code >> 21 & 7][lane] * shared_values[k + 7];
    }
    atomicAdd(&out[column], sum);
}
