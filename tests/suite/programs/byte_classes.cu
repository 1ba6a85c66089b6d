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

__global__ void count_classes(const char* text, size_t length, size_t chunk, Counts* total) {
  size_t id = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  size_t begin = id * chunk;
  size_t end = begin + chunk < length ? begin + chunk : length;
  unsigned int letters = 0, digits = 0, spaces = 0, lines = 0;
  for (size_t i = begin; i < end; i++) {
    char c = text[i];
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) letters++;
    else if (c >= '0' && c <= '9') digits++;
    else if (c == ' ') spaces++;
    else if (c == '\n') lines++;
  }
  atomicAdd(&total->letters, letters);
  atomicAdd(&total->digits, digits);
  atomicAdd(&total->spaces, spaces);
  atomicAdd(&total->lines, lines);
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
    count_classes<<<blocks, threads>>>(d_text, length, chunk, d_total);
  }
  cudaMemcpy(&got, d_total, sizeof(Counts), cudaMemcpyDeviceToHost);
  bool ok = got.letters == want.letters && got.digits == want.digits && got.spaces == want.spaces && got.lines == want.lines;
  printf("%u letters, %u digits, %u spaces, %u lines: %s\n", got.letters, got.digits, got.spaces, got.lines,
         ok ? "right" : "wrong");
  return !ok;
}
