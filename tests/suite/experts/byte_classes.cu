// SPDX-License-Identifier: Apache-2.0
// How many letters, digits, spaces and lines a text has; every thread counts a chunk of its own.
#include <cuda_runtime.h>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string>

struct Counts {
  unsigned int letters, digits, spaces, lines;
};

// Neighbouring threads read neighbouring sixteen bytes; one atomic a warp and class.
__global__ void count_classes(const char* __restrict__ text, size_t length, size_t chunk, Counts* total) {
  size_t id = blockIdx.x * (size_t)blockDim.x + threadIdx.x, all = gridDim.x * (size_t)blockDim.x;
  unsigned int letters = 0, digits = 0, spaces = 0, lines = 0;
  auto count = [&](char c) {
    letters += (unsigned char)((c | 0x20) - 'a') < 26;
    digits += (unsigned char)(c - '0') < 10;
    spaces += c == ' ';
    lines += c == '\n';
  };
  for (size_t g = id; g < length / 16; g += all) {
    uint4 v = __ldcs((const uint4*)text + g);
    const char* c = (const char*)&v;
#pragma unroll
    for (int i = 0; i < 16; i++) count(c[i]);
  }
  if (id < length % 16) count(text[length / 16 * 16 + id]);
  letters = __reduce_add_sync(0xffffffffu, letters);
  digits = __reduce_add_sync(0xffffffffu, digits);
  spaces = __reduce_add_sync(0xffffffffu, spaces);
  lines = __reduce_add_sync(0xffffffffu, lines);
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&total->letters, letters);
    atomicAdd(&total->digits, digits);
    atomicAdd(&total->spaces, spaces);
    atomicAdd(&total->lines, lines);
  }
}

int main(int argc, char** argv) {
  size_t length = argc > 1 ? strtoull(argv[1], nullptr, 10) : (size_t)1 << 28;
  const char alphabet[] = "the quick brown fox 0123 jumps over\nLazy Dogs; 456!";
  std::string text(length, ' ');
  Counts want = {0, 0, 0, 0}, got;
  for (size_t i = 0; i < length; i++) {
    char c = alphabet[(i * 2654435761u >> 7) % (sizeof(alphabet) - 1)];
    text[i] = c;
    want.letters += isalpha(c) != 0;
    want.digits += isdigit(c) != 0;
    want.spaces += c == ' ';
    want.lines += c == '\n';
  }
  char* d_text;
  Counts* d_total;
  cudaMalloc(&d_text, length);
  cudaMalloc(&d_total, sizeof(Counts));
  cudaMemcpy(d_text, text.data(), length, cudaMemcpyHostToDevice);
  const size_t chunk = 1024;
  const int threads = 256;
  const int blocks = (int)((length + chunk * threads - 1) / (chunk * threads));
  for (int i = 0; i < 5; i++) {
    cudaMemset(d_total, 0, sizeof(Counts));
    count_classes<<<132 * 8, threads>>>(d_text, length, chunk, d_total);
  }
  cudaMemcpy(&got, d_total, sizeof(Counts), cudaMemcpyDeviceToHost);
  bool ok = got.letters == want.letters && got.digits == want.digits && got.spaces == want.spaces && got.lines == want.lines;
  printf("%u letters, %u digits, %u spaces, %u lines: %s\n", got.letters, got.digits, got.spaces, got.lines,
         ok ? "right" : "wrong");
  return !ok;
}
