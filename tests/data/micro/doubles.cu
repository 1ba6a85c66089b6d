// Double arithmetic that float data did not ask for.
#include <cmath>

__global__ void damped(float *__restrict__ x, const float *__restrict__ v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * 0.98 + 0.5 * v[i];  // expect: double-in-float-kernel
}

// The factor is passed as a double, and no data is.
__global__ void damped_by(float *__restrict__ x, const float *__restrict__ v, int n, double factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * factor + v[i];  // expect: double-in-float-kernel
}

__global__ void damped_in_float(float *__restrict__ x, const float *__restrict__ v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * 0.98f + 0.5f * v[i];
}

__global__ void series(float *out, const float *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float term = in[i], sum = 0;
    for (int k = 1; k < 64; ++k) {
        sum += term / (k + 0.25);  // expect: double-in-float-kernel
        term *= in[i];
    }
    out[i] = sum;
}

// Double on purpose: the accumulator is declared so and the result keeps it.
__global__ void precise_sum(double *out, const float *in, int n)
{
    double sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += in[i];  // hint: one-load-in-flight
    atomicAdd(out, sum);  // expect: global-atomic-contention
}

// The compiler folds the literal: no double instruction is left.
__global__ void folded(float *out, int n)
{
    const float scale = 1.0 / 3.0;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] *= scale;
}

// A phase that each thread works out in double, sine and cosine of one argument.
__global__ void turned(double2 *__restrict__ waves, const double *__restrict__ potential, double step, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double by = potential[i] * step;
    double2 own = waves[i];
    double c = cos(-by), s = sin(-by);  // expect: double-bound
    waves[i] = make_double2(own.x * c - own.y * s, own.x * s + own.y * c);
}

// The same where an array holds the turns.
__global__ void turned_by(double2 *__restrict__ waves, const double2 *__restrict__ turns, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double2 own = waves[i], by = turns[i];
    waves[i] = make_double2(own.x * by.x - own.y * by.y, own.x * by.y + own.y * by.x);
}
