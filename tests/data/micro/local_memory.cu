// Arrays that do not fit registers, for two different reasons.
__global__ void histogram_per_thread(int *out, const unsigned char *in, int n)
{
    int bins[16] = {0};
    for (int i = threadIdx.x; i < n; i += blockDim.x) ++bins[in[i] & 15];  // expect: local-memory-array, expect: scalar-access, expect: one-load-in-flight
    for (int b = 0; b < 16; ++b) atomicAdd(&out[b], bins[b]);  // expect: global-atomic-contention
}

__global__ void unrolled_window(float *out, const float *in, int n)
{
    float window[8];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 8; ++k) window[k] = i + k < n ? in[i + k] : 0;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += window[k] * window[7 - k];
    if (i < n) out[i] = sum;
}

__global__ void __launch_bounds__(1024, 2) too_many_values(float *out, const float *in, int n)  // expect: register-spills
{
    float a[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 64; ++k) a[k] = in[(i + k * 97) % n];
    for (int pass = 0; pass < 20; ++pass) {
#pragma unroll
        for (int k = 0; k < 64; ++k) a[k] = a[k] * a[(k + 7) % 64] + a[(k + 13) % 64];
    }
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 64; ++k) sum += a[k];
    out[i] = sum;
}

struct Product { unsigned long long low, high; };

// In local memory for being volatile: nothing is indexed.
__global__ void volatile_product(unsigned long long *out, const unsigned long long *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    volatile Product p;
    p.low = in[i] * 3;
    p.high = __umul64hi(in[i], 3);
    out[i] = p.low + p.high;
}

void launch(int *bins, const unsigned char *bytes, float *out, const float *in, int n)
{
    histogram_per_thread<<<264, 256>>>(bins, bytes, n);
    unrolled_window<<<n / 256, 256>>>(out, in, n);
    too_many_values<<<n / 1024, 1024>>>(out, in, n);
    volatile_product<<<(n + 255) / 256, 256>>>((unsigned long long *)out, (const unsigned long long *)in, n);
}
