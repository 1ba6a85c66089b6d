// SPDX-License-Identifier: Apache-2.0
// Kernels of many signatures, each with a launch spec, and no program.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

constexpr int kBlock = 128;
#define TILE 16
__constant__ float weights[9];

struct Spring {
    float rest[2];
    int2 ends;
};
struct Particle {
    float3 position;
    Spring spring;
    double mass;
};
struct Params {
    int width;
    float alpha;
    const float* table;
};
enum class Mode { plain, wrapped };

/* warplens: launch
shapes = [{ n = 1000 }]
grid = "(n + kBlock - 1) / kBlock"
block = "kBlock"
arguments.x = { count = "n", low = -2, high = 2.5 }
arguments.y = { count = "n", fill = "zeros" }
arguments.alpha = 2.5
*/
__global__ void scalars(const float* __restrict__ x, float* y, float alpha, int n)
{
    int i = blockIdx.x * kBlock + threadIdx.x;
    if (i < n) y[i] = alpha * x[i];
}

namespace ns {
namespace {
// warplens: launch
// template = ["__half", 4, true]
// shapes = [{ n = 4096 }, { n = 1025 }]
// grid = 8
// arguments.x = { count = "n" }
// arguments.total = { count = 1, fill = "zeros" }
template <typename T, int N, bool Wide>
__global__ void templated(const T* x, float* total, long long n)
{
    for (long long i = threadIdx.x; i < n; i += N * 64) atomicAdd(total, Wide ? (float)x[i] : 0.0f);
}
}
}

/* warplens: launch
 * shapes = [{ w = 640, h = 480 }]
 * grid = ["(w + TILE - 1) / TILE", "(h + TILE - 1) / TILE"]
 * block = ["TILE", "TILE"]
 * arguments.image = { count = "w * h" }
 * arguments.out = { count = "w * h" }
 * symbols.weights = { count = 9, low = 0, high = 1 }
 */
__global__ void two_dimensional(const uchar4* image, __nv_bfloat162* out, unsigned w, int h)
{
    unsigned x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    if (x < w && y < h) out[y * w + x] = __floats2bfloat162_rn(image[y * w + x].x * weights[3], 1.0f);
}

/* warplens: launch
shapes = [{ n = 512 }]
grid = "n / 64"
block = 64
arguments.particles = { count = "n" }
arguments.params = "{n, 0.5f, table}"
arguments.mode = "Mode::wrapped"
arguments.flags = { count = "n" }
buffers.table = { count = "n + 1", type = "float", fill = "ramp" }
*/
__global__ void structs(Particle* particles, const Params params, Mode mode, bool* flags)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= params.width) return;
    particles[i].spring.rest[1] += params.alpha * params.table[i];
    flags[i] = mode == Mode::wrapped;
}

/* warplens: launch
shapes = [{ batch = 8, n = 256 }]
grid = "batch"
shared = "n * sizeof(float)"
arguments.rows = { count = "batch", each = "n" }
arguments.raw = { count = "batch * n", type = "float" }
arguments.order = { count = "n", fill = "permutation" }
arguments.next = "nullptr"
*/
__global__ void pointers(const float* const* rows, void* raw, const std::uint16_t* order, int* next, size_t n)
{
    extern __shared__ float row[];
    row[threadIdx.x] = rows[blockIdx.x][order[threadIdx.x]];
    __syncthreads();
    static_cast<float*>(raw)[blockIdx.x * n + threadIdx.x] = row[n - 1 - threadIdx.x] + (next != nullptr);
}

/* warplens: launch
grid = [2, 3, 4]
block = [4, 2, 1]
arguments.counts = { count = 192, fill = "zeros" }
arguments.factor = 3
*/
__global__ void no_sizes(unsigned long long* counts, double factor = 3)
{
    atomicAdd(&counts[threadIdx.x], factor > 1 ? 1ull : 2ull);
}
