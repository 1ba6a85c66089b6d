// Causes that stand in device functions: findings are made where the code is written, for each kernel that runs it.
#include <cstdint>

__device__ __forceinline__ uint32_t folded(uint64_t wide, uint32_t modulus) {
    return static_cast<uint32_t>(wide % modulus);  // expect: integer-division
}

struct Generator {
    uint64_t factor, modulus;
    __device__ uint64_t next(uint64_t state) const {
        return (state * factor + 1) % modulus;  // expect: integer-division
    }
};

// A product of residues: only the high words decide whether a division leaves 32 bits.
__global__ void residues(const uint32_t* __restrict__ values, uint32_t* result, uint32_t modulus, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint32_t value = values[i], sum = 1;
#pragma unroll 1
    for (int r = 0; r < rounds; ++r) sum = folded(uint64_t(sum) * value + r, modulus);
    result[i] = sum;
}

template <class Random>
__global__ void draw(uint64_t* state, int n, int rounds, Random random) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint64_t s = state[i];
    for (int r = 0; r < rounds; ++r) s = random.next(s);
    state[i] = s;
}
template __global__ void draw<Generator>(uint64_t*, int, int, Generator);

__device__ float chained(float a, float b, float c) {
    float product = __fmul_rn(a, b);
    return __fadd_rn(product, c);  // expect: non-fused-arithmetic
}

__global__ void series(float* x, int n, int terms, float a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s0 = 0.0f, s1 = 1.0f, s2 = 2.0f, s3 = 3.0f, v = x[i];
    for (int t = 0; t < terms; ++t) {
        s0 = chained(s0, v, a);
        s1 = chained(s1, v, a);
        s2 = chained(s2, v, a);
        s3 = chained(s3, v, a);
    }
    x[i] = s0 + s1 + s2 + s3;
}

__device__ float decayed(float amount, float rate) {
    return amount * (1.0 - 0.35 * rate);  // expect: double-in-float-kernel
}

__global__ void decay(float* amount, const float* __restrict__ rate, int n, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = amount[i], r = rate[i];
#pragma unroll 4
    for (int s = 0; s < steps; ++s) a = decayed(a, r);
    amount[i] = a;
}

// What is double in the data stays double: nothing of it is rounded.
struct alignas(16) Sample {
    double time, value;
};

__global__ void stamp(Sample* samples, const float* __restrict__ values, int n, int first) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) samples[i] = Sample{1.0e-6 * (i + first), values[i]};
}

struct Wave {
    float real, imaginary;
    __device__ void add(float phase) {
        float s, c;
        sincosf(phase, &s, &c);  // expect: sfu-bound
        real += c;
        imaginary += s;
    }
};

// The exact reduction of a huge angle keeps a table in local memory and a double: neither is the program's.
__global__ void waves(float2* sum, const float* __restrict__ phase, int n, int terms) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Wave wave{0.0f, 0.0f};
    float p = phase[i];
    for (int t = 0; t < terms; ++t) wave.add(p * t);
    sum[i] = make_float2(wave.real, wave.imaginary);
}

__global__ void sines(float* out, const float* __restrict__ in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = sinf(in[i]);
}
