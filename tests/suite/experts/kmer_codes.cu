// SPDX-License-Identifier: Apache-2.0
// Codes of all canonical k-mers of a DNA sequence: two bits a base, the smaller of the k-mer and its reverse complement.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

constexpr uint64_t kInvalid = ~0ull;  // k-mers with an unknown base

constexpr int kThreads = 256;
constexpr int kPerBlock = 2048;                  // k-mers
constexpr int kWords = (kPerBlock + 32) / 16;    // words of sixteen bases, first base on top
constexpr int kMasks = (kPerBlock + 32) / 32;    // words of thirty-two bits for unknown bases, first base lowest

// The bases of a block become two bits each in shared memory; a k-mer is then a few shifts, its reverse complement a
// reversal of the bits.
__global__ void __launch_bounds__(kThreads) kmer_codes(const char* __restrict__ seq, uint64_t* __restrict__ codes,
                                                       int length, int k) {
  __shared__ uint32_t packed[kWords + 2];
  __shared__ uint32_t unknown[kMasks + 2];
  int first = blockIdx.x * kPerBlock;

  for (int w = threadIdx.x; w < kWords; w += kThreads) {
    int at = first + w * 16;
    uint32_t four[4] = {};
    if (at + 16 <= length) {
      uint4 v = *reinterpret_cast<const uint4*>(seq + at);
      four[0] = v.x;
      four[1] = v.y;
      four[2] = v.z;
      four[3] = v.w;
    } else {
      for (int i = 0; i < 16 && at + i < length; i++) four[i / 4] |= (uint32_t)(unsigned char)seq[at + i] << (i % 4 * 8);
    }
    uint32_t bits = 0, bad = 0;
#pragma unroll
    for (int q = 0; q < 4; q++) {
      uint32_t c = four[q];
      uint32_t ok = __vcmpeq4(c, 0x41414141u) | __vcmpeq4(c, 0x43434343u) | __vcmpeq4(c, 0x47474747u) |
                    __vcmpeq4(c, 0x54545454u);
      uint32_t b = ((c >> 1) ^ (c >> 2)) & 0x03030303u;  // A, C, G, T are 0 to 3
      bits = bits << 8 | ((b << 6 | b >> 4 | b >> 14 | b >> 24) & 0xffu);
      uint32_t miss = ~ok & 0x01010101u;
      bad |= ((miss | miss >> 7 | miss >> 14 | miss >> 21) & 0xfu) << (q * 4);
    }
    packed[w] = bits;
    reinterpret_cast<uint16_t*>(unknown)[w] = (uint16_t)bad;
  }
  if (threadIdx.x < 2) {
    packed[kWords + threadIdx.x] = 0;
    unknown[kMasks + threadIdx.x] = 0;
  }
  __syncthreads();

  uint32_t span = 0xffffffffu >> (32 - k);
  int drop = 64 - 2 * k;
#pragma unroll
  for (int i = 0; i < kPerBlock / kThreads; i++) {
    int p = threadIdx.x + i * kThreads;
    if (first + p + k > length) break;
    uint32_t a = packed[p / 16], b = packed[p / 16 + 1], c = packed[p / 16 + 2];
    uint32_t shift = p % 16 * 2;
    uint64_t window = (uint64_t)__funnelshift_l(b, a, shift) << 32 | __funnelshift_l(c, b, shift);
    uint64_t forward = window >> drop;
    // The order of the bases turned round, each complemented.
    uint64_t turned = __brevll(~window);
    turned = (turned >> 1 & 0x5555555555555555ull) | (turned & 0x5555555555555555ull) << 1;
    uint64_t reverse = turned & (~0ull >> drop);
    uint32_t bad = __funnelshift_r(unknown[p / 32], unknown[p / 32 + 1], p % 32) & span;
    uint64_t code = forward < reverse ? forward : reverse;
    __stcs(reinterpret_cast<unsigned long long*>(&codes[first + p]), (unsigned long long)(bad ? kInvalid : code));
  }
}

uint64_t kmer_cpu(const std::string& s, int pos, int k) {
  uint64_t forward = 0, reverse = 0;
  for (int i = 0; i < k; i++) {
    size_t f = std::string("ACGT").find(s[pos + i]), r = std::string("TGCA").find(s[pos + k - 1 - i]);
    if (f == std::string::npos || r == std::string::npos) return kInvalid;
    forward = forward * 4 + f;
    reverse = reverse * 4 + r;
  }
  return forward < reverse ? forward : reverse;
}

int main(int argc, char** argv) {
  int length = argc > 1 ? atoi(argv[1]) : 20000000;
  int k = argc > 2 ? atoi(argv[2]) : 21;
  if (k < 1 || k > 31 || k > length) {
    printf("k has to be between 1 and 31\n");
    return 1;
  }
  std::string seq(length, 'N');
  uint32_t state = 2463534242u;
  for (int i = 0; i < length; i++) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    if (state % 1000 != 0) seq[i] = "ACGT"[state >> 30];
  }

  int count = length - k + 1;
  char* d_seq;
  uint64_t* d_codes;
  cudaMalloc(&d_seq, length);
  cudaMalloc(&d_codes, count * sizeof(uint64_t));
  cudaMemcpy(d_seq, seq.data(), length, cudaMemcpyHostToDevice);

  for (int i = 0; i < 10; i++) kmer_codes<<<(length + kPerBlock - 1) / kPerBlock, kThreads>>>(d_seq, d_codes, length, k);

  std::vector<uint64_t> codes(count);
  cudaMemcpy(codes.data(), d_codes, count * sizeof(uint64_t), cudaMemcpyDeviceToHost);
  int wrong = 0, invalid = 0;
  for (int i = 0; i < count; i += 1 + count / 20000) wrong += codes[i] != kmer_cpu(seq, i, k);
  uint64_t checksum = 0;
  for (uint64_t c : codes) {
    invalid += c == kInvalid;
    checksum = checksum * 31 + c;
  }
  printf("%d k-mers, %d invalid, checksum %016llx, %d wrong\n", count, invalid, (unsigned long long)checksum, wrong);
  cudaFree(d_seq);
  cudaFree(d_codes);
  return wrong != 0;
}
