// Splits the hidden dimension of a batch of token activations into channel-major planes: [token][channel] ->
// [channel][token].
#include <cstdio>
#include <cstdlib>
#include <cstring>

using scalar_t = float;

// class: memory
template <int kChannels>
__global__ void split_heads(const float *src, float *dst, int tokens)
{
    __shared__ float box[32][33];
    const int column = threadIdx.x % 32, row = threadIdx.x / 32;
    for (int first = blockIdx.x * 32; first < tokens; first += gridDim.x * 32)
        for (int c = 0; c < kChannels; c += 32) {
            for (int r = row; r < 32; r += 8) box[r][column] = src[(first + r) * kChannels + c + column];
            __syncthreads();
            for (int r = row; r < 32; r += 8) dst[(c + r) * tokens + first + column] = box[column][r] * 0.125f;
            __syncthreads();
        }
}

static void die(const char *what) { fprintf(stderr, "%s\n", what); exit(1); }

int main()
{
    const int tokens = 1 << 18, channels = 256;
    const size_t count = size_t(tokens) * channels;
    scalar_t *host = (scalar_t *)malloc(count * sizeof(scalar_t));
    for (size_t i = 0; i < count; ++i) host[i] = scalar_t(i % 509) - 254.0f;
    float *src, *dst;
    if (cudaMalloc(&src, count * 4) || cudaMalloc(&dst, count * 4)) die("no memory");
    cudaMemcpy(src, host, count * 4, cudaMemcpyHostToDevice);
    for (int i = 0; i < 3; i++) split_heads<256><<<4096, 256>>>(src, dst, tokens);
    float *back = (float *)malloc(count * 4);
    if (cudaMemcpy(back, dst, count * 4, cudaMemcpyDeviceToHost)) die("copy failed");
    for (int t = 0; t < tokens; t += 131)
        for (int c = 0; c < channels; c += 7)
            if (back[size_t(c) * tokens + t] != host[size_t(t) * channels + c] * 0.125f) die("mismatch");
    puts("ok");
}
