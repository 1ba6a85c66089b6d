// SPDX-License-Identifier: Apache-2.0
// `Device<T> x(n)` is device memory of small repeatable values; `show` prints all of it. Arrays, for a vector of each
// element type would be a fifth of what the programs that use it take to compile.
#pragma once

#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T> struct Device {
  T* data; size_t count;
  explicit Device(size_t n, int seed = 1) : count(n) {
    T* host = new T[n];
    for (size_t i = 0; i < n; ++i) host[i] = T((float)((int)((i * 7919 + seed * 104729) % 61) - 30) / 8.0f);
    cudaMalloc((void**)&data, n * sizeof(T));
    cudaMemcpy(data, host, n * sizeof(T), cudaMemcpyHostToDevice);
    delete[] host;
  }
  operator T*() const { return data; }
  void show() const {
    cudaDeviceSynchronize();
    T* host = new T[count];
    cudaMemcpy(host, data, count * sizeof(T), cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < count; ++i) printf("%g\\n", (double)(float)host[i]);
    delete[] host;
  }
};

// In device.cpp, once for all programs.
#ifdef HOST_CUDA_RUNTIME
#define HOST_CUDA_DEVICES(what) what Device<float>; what Device<int>; what Device<double>; what Device<unsigned char>;
HOST_CUDA_DEVICES(extern template struct)
#endif
