// Two units whose device code needs no linking: the kernel and its launch are in this one, `main` is in the other.
#include "smooth.h"

namespace {

__constant__ float weight[5] = {0.1f, 0.2f, 0.4f, 0.2f, 0.1f};
__device__ unsigned calls;

__global__ void smooth(const float* in, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 2 || i >= n - 2) return;
    float sum = 0.0f;
    for (int k = -2; k <= 2; ++k) sum += weight[k + 2] * in[i + k];
    out[i] = sum;
    if (i == 2) ++calls;
}

}  // namespace

void run_smooth(const float* in, float* out, int n) { smooth<<<(n + 255) / 256, 256>>>(in, out, n); }
