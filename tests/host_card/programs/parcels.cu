// Rows of 32 numbers, packed by as many bits as each row says; the logarithm of a row's shares; checksums of chunks.
#include <cmath>
#include <cstdio>
#include <vector>

__global__ void parcels(const unsigned *values, const int *widths, const float *scores, const unsigned char *bytes, int length,
                        int count, int chunk, unsigned *words, float *shares, unsigned *sums) {
    __shared__ unsigned packed[33];
    const int t = threadIdx.x, row = blockIdx.x, width = max(0, min(widths[row], 32)), bit = t * width;
    packed[t] = 0;
    if (t == 0) packed[32] = 0;
    __syncthreads();
    const unsigned value = values[row * 32 + t];
    atomicOr(&packed[bit >> 5], value << (bit & 31));
    if ((bit & 31) + width > 32) atomicOr(&packed[(bit >> 5) + 1], value >> (32 - (bit & 31)));
    __syncthreads();
    if (t < width) words[row * 32 + t] = packed[t];

    const float *own = scores + row * length;
    float most = -INFINITY, sum = 0.0f;
    for (int k = t; k < length; k += 32) most = fmaxf(most, own[k]);
    for (int by = 16; by > 0; by /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, by));
    for (int k = t; k < length; k += 32) sum += expf(own[k] - most);
    for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
    if (t == 0) shares[row] = logf(sum) + most;

    const int part = row * 32 + t, begin = part * chunk, end = min(count, begin + chunk);
    if (begin >= count) return;
    unsigned a = 1, b = 0;
    for (int i = begin; i < end; ++i) {
        a = (a + bytes[i]) % 65521u;
        b = (b + a) % 65521u;
    }
    sums[part] = b << 16 | a;
}

int main() {
    const int rows = 24, length = 160, chunk = 64, count = rows * 32 * chunk;
    std::vector<unsigned> values(rows * 32), words(rows * 32, 0), sums(rows * 32, 0);
    std::vector<int> widths(rows, 8);
    std::vector<float> scores(rows * length), shares(rows);
    std::vector<unsigned char> bytes(count);
    unsigned state = 7;
    auto next = [&] { return (state = state * 1664525u + 1013904223u) >> 8; };
    for (auto &v : values) v = next() % 256;
    for (auto &s : scores) s = next() / 16777216.0f * 6 - 3;
    for (auto &b : bytes) b = (unsigned char)(next() % 100);
    unsigned *d_values, *d_words, *d_sums;
    int *d_widths;
    float *d_scores, *d_shares;
    unsigned char *d_bytes;
    cudaMalloc(&d_values, values.size() * 4);
    cudaMalloc(&d_words, words.size() * 4);
    cudaMalloc(&d_sums, sums.size() * 4);
    cudaMalloc(&d_widths, rows * 4);
    cudaMalloc(&d_scores, scores.size() * 4);
    cudaMalloc(&d_shares, rows * 4);
    cudaMalloc(&d_bytes, count);
    cudaMemcpy(d_values, values.data(), values.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(d_words, words.data(), words.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(d_widths, widths.data(), rows * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(d_scores, scores.data(), scores.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(d_bytes, bytes.data(), count, cudaMemcpyHostToDevice);
    for (int turn = 0; turn < 2; ++turn) parcels<<<rows, 32>>>(d_values, d_widths, d_scores, d_bytes, length, count, chunk, d_words, d_shares, d_sums);
    cudaMemcpy(words.data(), d_words, words.size() * 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(shares.data(), d_shares, rows * 4, cudaMemcpyDeviceToHost);
    if (cudaMemcpy(sums.data(), d_sums, sums.size() * 4, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    unsigned all = 0;
    for (unsigned w : words) all = all * 31 + w;
    for (unsigned s : sums) all = all * 31 + s;
    double share = 0;
    for (float s : shares) share += s;
    std::printf("%u %.4f\n", all, share);
    return 0;
}
