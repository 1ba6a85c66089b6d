// The ChaCha20 key stream, one 64-byte block a thread: all integers, no inputs but its arguments.
#include <cstdio>
#include <vector>

struct Key {
    unsigned words[8], nonce[3];
};

__device__ unsigned rotate(unsigned v, int by) { return v << by | v >> (32 - by); }

__device__ void quarter(unsigned &a, unsigned &b, unsigned &c, unsigned &d) {
    a += b; d = rotate(d ^ a, 16);
    c += d; b = rotate(b ^ c, 12);
    a += b; d = rotate(d ^ a, 8);
    c += d; b = rotate(b ^ c, 7);
}

__global__ void key_stream(Key key, uint4 *out, unsigned blocks) {
    const unsigned counter = blockIdx.x * blockDim.x + threadIdx.x;
    if (counter >= blocks) return;
    unsigned start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}, s[16];
    for (int i = 0; i < 8; ++i) start[4 + i] = key.words[i];
    start[12] = counter;
    for (int i = 0; i < 3; ++i) start[13 + i] = key.nonce[i];
    for (int i = 0; i < 16; ++i) s[i] = start[i];
    for (int round = 0; round < 10; ++round) {
        quarter(s[0], s[4], s[8], s[12]);
        quarter(s[1], s[5], s[9], s[13]);
        quarter(s[2], s[6], s[10], s[14]);
        quarter(s[3], s[7], s[11], s[15]);
        quarter(s[0], s[5], s[10], s[15]);
        quarter(s[1], s[6], s[11], s[12]);
        quarter(s[2], s[7], s[8], s[13]);
        quarter(s[3], s[4], s[9], s[14]);
    }
    for (int i = 0; i < 16; ++i) s[i] += start[i];
    for (int i = 0; i < 4; ++i) out[counter * 4 + i] = make_uint4(s[4 * i], s[4 * i + 1], s[4 * i + 2], s[4 * i + 3]);
}

int main() {
    const unsigned blocks = 1 << 18;
    Key key = {};
    for (unsigned i = 0; i < 8; ++i) key.words[i] = 0x03020100u + 0x04040404u * i;
    uint4 *out;
    cudaMalloc(&out, blocks * 64ull);
    for (int i = 0; i < 4; ++i) key_stream<<<blocks / 128, 128>>>(key, out, blocks);
    uint4 first;
    if (cudaMemcpy(&first, out, 16, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%08x %08x\n", first.x, first.y);
    return 0;
}
