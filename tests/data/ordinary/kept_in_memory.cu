// SPDX-License-Identifier: Apache-2.0
// Values that a thread keeps in memory between its steps.

// Four steps of Runge and Kutta, each of which reads back what the one before stored.
__global__ void relax(float *v, float *g, const float *drive, const float *rest, int n, float h)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n) return;
    float v0 = v[i], g0 = g[i];
    float k1 = (drive[i] - v[i]) * h * g[i], l1 = (rest[i] - g[i]) * h;
    v[i] = v0 + k1 / 2;
    g[i] = g0 + l1 / 2;
    float k2 = (drive[i] - v[i]) * h * g[i], l2 = (rest[i] - g[i]) * h; // told: elements-read-again information
    v[i] = v0 + k2 / 2;
    g[i] = g0 + l2 / 2;
    float k3 = (drive[i] - v[i]) * h * g[i], l3 = (rest[i] - g[i]) * h;
    v[i] = v0 + k3;
    g[i] = g0 + l3;
    float k4 = (drive[i] - v[i]) * h * g[i], l4 = (rest[i] - g[i]) * h;
    v[i] = v0 + (k1 + 2 * k2 + 2 * k3 + k4) / 6;
    g[i] = g0 + (l1 + 2 * l2 + 2 * l3 + l4) / 6;
}

// Each thread's words of a packet, added up in shared memory that no other thread looks at.
__global__ void parity(const int *list, const int *data, int *out, int many, int words)
{
    extern __shared__ int sum[];
    int at = threadIdx.x;
    while (at < words) {
        sum[at] = 0;
        at += blockDim.x;
    }
    for (int i = 0; i < many; i++) {
        int which = list[blockIdx.x * many + i];
        at = threadIdx.x;
        while (at < words) {
            sum[at] ^= data[which * words + at]; // told: elements-read-again information
            at += blockDim.x;
        }
    }
    for (at = threadIdx.x; at < words; at += blockDim.x) out[blockIdx.x * words + at] = sum[at];
}

// The stages of a tile wait for each other: what is read again others wrote.
__global__ void smooth(float *a, int n, int rounds)
{
    int i = threadIdx.x;
    for (int r = 0; r < rounds; ++r) {
        float left = a[i], right = a[i + 1];
        __syncthreads();
        a[i] = 0.5f * (left + right);
        __syncthreads();
    }
}
