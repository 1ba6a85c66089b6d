// SPDX-License-Identifier: Apache-2.0
// A type of the program's own, of which the text leaves open what it is: the compiler knows.

#ifdef IN_SINGLE
typedef float real;
#else
typedef double real;
#endif

__global__ void scaled_apart(real *out, const real *in, int rows, int columns, real by)
{
    int c = threadIdx.x + blockIdx.x * blockDim.x, r = threadIdx.y + blockIdx.y * blockDim.y;
    if (c < columns && r < rows) out[r + rows * c] = by * in[r + rows * c];  // expect: uncoalesced-global-write
}

__global__ void scaled_beside(real *out, const real *in, int rows, int columns, real by)
{
    int c = threadIdx.x + blockIdx.x * blockDim.x, r = threadIdx.y + blockIdx.y * blockDim.y;
    if (c < columns && r < rows) out[r * columns + c] = by * in[r * columns + c];
}
