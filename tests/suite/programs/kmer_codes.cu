// SPDX-License-Identifier: Apache-2.0
// Codes of all canonical k-mers of a DNA sequence: two bits a base, the smaller of the k-mer and its reverse complement.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

constexpr uint64_t kInvalid = ~0ull;  // k-mers with an unknown base

__global__ void kmer_codes(const char* seq, uint64_t* codes, int length, int k) {
  int pos = blockIdx.x * blockDim.x + threadIdx.x;
  if (pos + k > length) return;

  uint64_t forward = 0, reverse = 0;
  bool valid = true;
  for (int i = 0; i < k; i++) {
    uint64_t base = 0;
    switch (seq[pos + i]) {
      case 'A': base = 0; break;
      case 'C': base = 1; break;
      case 'G': base = 2; break;
      case 'T': base = 3; break;
      default: valid = false;
    }
    forward = (forward << 2) | base;
    reverse = reverse | ((3 - base) << (2 * i));
  }
  uint64_t code = forward < reverse ? forward : reverse;
  codes[pos] = valid ? code : kInvalid;
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

  const int threads = 256;
  for (int i = 0; i < 10; i++) kmer_codes<<<(length + threads - 1) / threads, threads>>>(d_seq, d_codes, length, k);

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
