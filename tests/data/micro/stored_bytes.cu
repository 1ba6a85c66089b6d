// SPDX-License-Identifier: Apache-2.0
// Bytes that threads work out and store, one by one or a word of them at once.

__device__ unsigned int mixed(unsigned int s)
{
    s ^= s << 13;
    s ^= s >> 17;
    return s ^ (s << 5);
}

__global__ void noise(unsigned char *out, int n)
{
    int own = threadIdx.x + blockIdx.x * blockDim.x;
    unsigned int state = own * 747796405u + 1u;
    for (int i = own; i < n; i += gridDim.x * blockDim.x) {
        state = mixed(state);
        out[i] = state & 255u;  // expect: scalar-access
    }
}

__global__ void noise_in_words(unsigned int *out, int words)
{
    int own = threadIdx.x + blockIdx.x * blockDim.x;
    unsigned int state = own * 747796405u + 1u;
    for (int i = own; i < words; i += gridDim.x * blockDim.x) {
        state = mixed(state);
        out[i] = state;
    }
}
