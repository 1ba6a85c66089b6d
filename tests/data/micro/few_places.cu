// Atomics on few places that the text of the kernel does not bound: a function, a lambda and a record hide them.
#include <cstdint>

struct Tally {
    unsigned long long weight[16];
    unsigned count[16];
};

__device__ __forceinline__ void vote(unsigned *where, unsigned what)
{
    atomicAdd(where + what % 10u, 1u); // expect: global-atomic-contention, expect: scattered-atomics
}

__global__ void votes(const unsigned *keys, unsigned *out, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) vote(out, keys[i]);  // hint: one-load-in-flight
}

__global__ void leading(const unsigned *keys, unsigned *out, int n)
{
    auto put = [&](unsigned k) {
        atomicAdd(&out[k >> 28], 1u); // expect: global-atomic-contention
    };
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) put(keys[i]);  // hint: one-load-in-flight
}

__global__ void tally(const uint8_t *kind, const unsigned *weight, Tally *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const unsigned kinds[1] = {kind[i]};  // expect: scalar-access
        atomicAdd(&out->weight[kinds[0]], (unsigned long long)weight[i]); // expect: global-atomic-contention
    }
}

// A million places, places of the launch, and each block's own: nothing to say.
__global__ void many(const unsigned *keys, unsigned *out, int n, unsigned places)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&out[keys[i] & 0xfffff], 1u);
        vote(out + blockIdx.x * 64 + (keys[i] / 64 & 32), keys[i] >> 20);
    }
}

int main()
{
    unsigned *keys = nullptr, *out = nullptr;
    const int n = 1 << 26;
    votes<<<1056, 256>>>(keys, out, n);
    leading<<<1056, 256>>>(keys, out, n);
    tally<<<n / 256, 256>>>((const uint8_t *)keys, keys, (Tally *)out, n);
    many<<<1056, 256>>>(keys, out, n, 7);
}
