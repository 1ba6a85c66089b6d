// SPDX-License-Identifier: Apache-2.0
// Kernels that a macro writes, each on one line: what is found in the function that they call is told there.
#include <cstddef>

template <typename T, typename A>
__device__ void weighed(size_t n, const size_t *shape, const T *in, const T *weights, T *out)
{
    const size_t at = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (at >= n) return;
    A sum = 0;
    for (size_t k = 0; k < shape[0]; ++k) sum += A(in[at * shape[1] + k]) * A(weights[k * shape[2]]);  // expect: uncoalesced-global-read
    out[at] = T(sum);
}

#define WEIGHED(T, A, NAME) extern "C" __global__ void NAME(size_t n, const size_t *shape, const T *in, const T *weights, T *out) { weighed<T, A>(n, shape, in, weights, out); }

WEIGHED(float, float, weighed_f32)
WEIGHED(double, double, weighed_f64)
