// Divisions by run-time values and special functions that bound a kernel, and those that hide behind memory.
__global__ void walk(unsigned *__restrict__ counts, int width, int cells, int steps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cells) return;
    unsigned total = 0, cell = i;
    for (int step = 0; step < steps; ++step) {
        total += cell % width;  // expect: integer-division
        cell += 977u * step + 1u;
    }
    counts[i] = total;
}

__global__ void walk_constant(unsigned *__restrict__ counts, int cells, int steps)
{
    constexpr unsigned width = 1000;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cells) return;
    unsigned total = 0, cell = i;
    for (int step = 0; step < steps; ++step) {
        total += cell % width;
        cell += 977u * step + 1u;
    }
    counts[i] = total;
}

__global__ void gather_rows(float *__restrict__ out, const float *__restrict__ in, int width, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * (float)(i % width);  // hint: integer-division, expect: scalar-access
}

__global__ void wave_sum(float *__restrict__ out, const float *__restrict__ rate, int n, int samples)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float k = rate[i], sum = 0.0f;
    for (int s = 0; s < samples; ++s)
        sum += __sinf(k * s) * __cosf(k * s) * __logf(k + s);  // expect: sfu-bound
    out[i] = sum;
}

__global__ void normalise(float *__restrict__ out, const float *__restrict__ in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __expf(in[i]);
}

__global__ void horner_apart(float *__restrict__ out, const float *__restrict__ in, int n, int terms)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i], y = 0.0f;
    for (int k = 0; k < terms; ++k) y = __fadd_rn(__fmul_rn(y, x), 0.5f);  // expect: non-fused-arithmetic
    out[i] = y;
}

__global__ void horner(float *__restrict__ out, const float *__restrict__ in, int n, int terms)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i], y = 0.0f;
    for (int k = 0; k < terms; ++k) y = y * x + 0.5f;
    out[i] = y;
}

// The dividend has a high word, so that the routine for 64 bits is called each time; 16 neighbours read one word.
struct Buckets {
    unsigned long long count;
    __device__ unsigned long long operator()(unsigned long long hash) const { return hash % count; }  // expect: integer-division
};

__global__ void lowest_bucket(unsigned *__restrict__ where, const unsigned *__restrict__ packed, int n, Buckets buckets)
{
    const int at = blockIdx.x * 256 + threadIdx.x;
    if (at >= n) return;
    unsigned long long best = ~0ull;
    int found = 0;
#pragma unroll 4
    for (int j = 0; j < 12; ++j) {
        const int word = 2 * (at + j) >> 5;
        const unsigned long long low = __funnelshift_r(packed[word], packed[word + 1], 2 * (at + j));
        const unsigned long long hash = (low | (unsigned long long)packed[word + 2] << 32) * 0x7fb5d329728ea185ull;
        const unsigned long long bucket = buckets(hash ^ hash >> 27);
        if (bucket < best) { best = bucket; found = j; }
    }
    where[at] = at + found;
}
