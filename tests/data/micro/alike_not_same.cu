// SPDX-License-Identifier: Apache-2.0
// Code that has the look of a cause and is none of it: what is not marked is not told.
#include <cstdint>
#include <cuda_runtime.h>

struct Media { double stiff, loss; };
struct Fields { double *x; };

// Doubles in records: nothing here is float.
__global__ void stressed(Fields next, Fields now, const Media *ma, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double step = ma[i].stiff * now.x[i];
    next.x[i] = step > 2.0 ? (2.0 - ma[i].loss) / (2.0 + ma[i].loss) * step : step;
}

// Textures that a table names: what is read again is a handle, the fetches go elsewhere each time.
__global__ void rays(float *__restrict__ out, const cudaTextureObject_t *__restrict__ volumes, int channels, int steps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int s = 0; s < steps; ++s)
        for (int c = 0; c < channels; ++c) sum += tex3D<float>(volumes[c], i + 0.5f, s + 0.5f, c + 0.5f);  // expect: missing-cache-reuse
    out[i] = sum;
}

// The bytes that whole vectors leave: a few iterations at most.
__global__ void tallied(const unsigned char *__restrict__ data, int *__restrict__ sums, int n)
{
    int own = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x, vectors = n / 16;
    const uint4 *wide = reinterpret_cast<const uint4 *>(data);
    unsigned int sum = 0;
    for (int i = own; i < vectors; i += step) {
        uint4 v = wide[i];
        sum += __dp4a(v.x, 0x01010101u, __dp4a(v.y, 0x01010101u, __dp4a(v.z, 0x01010101u, v.w & 255u)));
    }
    for (int i = vectors * 16 + own; i < n; i += step) {
        if (data[i] == 7) break;
        sum += data[i];
    }
    sums[own] = sum;
}

// The next step's elements are on their way while this one's are worked on, and go into a second buffer.
__global__ void carried(float *__restrict__ out, const float *__restrict__ in, int steps)
{
    __shared__ float held[2][64];
    int t = threadIdx.x, now = 0;
    float next = in[t], sum = 0.0f;
    held[0][t] = next;
    for (int s = 1; s <= steps; ++s) {
        if (s < steps) next = in[s * 64 + t];
        __syncthreads();
        for (int k = 0; k < 64; ++k) sum = fmaf(sum, 0.5f, held[now][k] * t);
        now ^= 1;
        held[now][t] = next;
    }
    out[t] = sum;
}

// Of its instantiations the largest asks for blocks that no card has; no one can launch it, whatever it spills.
template <int D>
__global__ void __launch_bounds__(D * 8) wide_state(float *__restrict__ out, const float *__restrict__ in, int steps)
{
    float state[40];
    for (int k = 0; k < 40; ++k) state[k] = in[k * D + threadIdx.x];
    for (int s = 0; s < steps; ++s)
        for (int k = 0; k < 40; ++k) state[k] = fmaf(state[k], state[(k + 5) % 40], state[(k + 11) % 40]);
    for (int k = 0; k < 40; ++k) out[k * D + threadIdx.x] = state[k];
}

// Rows of bytes, as short as a few sectors for all that is known: words are the cure.
__global__ void contained(int *__restrict__ out, const unsigned char *__restrict__ sets,
                          const unsigned char *__restrict__ rows, int length, int many)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, found = 0;
    for (int r = 0; r < many; ++r) {
        bool all = true;
        for (int k = 0; k < length; ++k) all &= (sets[i * length + k] & ~rows[r * length + k]) == 0;  // expect: scalar-access, expect: elements-read-again
        found += all;
    }
    out[i] = found;
}

void run(float *out, const float *in, const cudaTextureObject_t *volumes, const unsigned char *data, int *sums, int n)
{
    Fields a{}, b{};
    stressed<<<n / 256, 256>>>(a, b, nullptr, n);
    rays<<<n / 256, 256>>>(out, volumes, 40, n);
    tallied<<<n / 256, 256>>>(data, sums, n);
    contained<<<n / 256, 256>>>(sums, data, data, n, n);
    carried<<<4096, 64>>>(out, in, n);
    auto choose = [](int d) { return d == 32 ? wide_state<32> : wide_state<256>; };
    choose(n)<<<n, n * 8>>>(out, in, n);
}
