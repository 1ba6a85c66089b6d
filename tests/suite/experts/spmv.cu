// SPDX-License-Identifier: Apache-2.0
// Sparse matrix times vector, CSR, one thread a row.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

struct Csr {
  int rows;
  std::vector<int> start, column;
  std::vector<float> value;
};

static Csr random_matrix(int rows, int per_row) {
  std::mt19937 gen(11);
  std::uniform_int_distribution<int> length(per_row / 2, per_row * 3 / 2), where(0, rows - 1);
  Csr m{rows, {0}, {}, {}};
  for (int r = 0; r < rows; r++) {
    std::vector<int> cols(length(gen));
    for (int& c : cols) c = where(gen);
    std::sort(cols.begin(), cols.end());
    for (int c : cols) {
      m.column.push_back(c);
      m.value.push_back(1.0f + 0.001f * (c % 100));
    }
    m.start.push_back((int)m.column.size());
  }
  return m;
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}

// A warp a row.
__global__ void spmv_csr_kernel(int num_rows, const int* __restrict__ row_ptr, const int* __restrict__ col_idx,
                                const float* __restrict__ values, const float* __restrict__ x, float* y) {
  int row = (blockDim.x * blockIdx.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= num_rows) return;
  int end = row_ptr[row + 1];
  float dot = 0;
  for (int jj = row_ptr[row] + lane; jj < end; jj += 32) dot += __ldcs(&values[jj]) * x[__ldcs(&col_idx[jj])];
  dot = warp_sum(dot);
  if (lane == 0) y[row] = dot;
}

template <class T>
T* upload(const std::vector<T>& v) {
  T* p;
  cudaMalloc(&p, v.size() * sizeof(T));
  cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice);
  return p;
}

int main(int argc, char** argv) {
  int rows = argc > 1 ? atoi(argv[1]) : 262144, per_row = argc > 2 ? atoi(argv[2]) : 64;
  Csr m = random_matrix(rows, per_row);
  std::vector<float> x(rows), y(rows);
  for (int i = 0; i < rows; i++) x[i] = 1.0f / (1 + i % 17);
  int *start = upload(m.start), *column = upload(m.column);
  float *value = upload(m.value), *dx = upload(x), *dy = upload(y);
  int threads = 128, blocks = (rows + threads / 32 - 1) / (threads / 32);
  for (int i = 0; i < 10; i++) spmv_csr_kernel<<<blocks, threads>>>(rows, start, column, value, dx, dy);
  cudaMemcpy(y.data(), dy, rows * sizeof(float), cudaMemcpyDeviceToHost);
  double worst = 0;
  for (int r = 0; r < rows; r++) {
    double want = 0;
    for (int j = m.start[r]; j < m.start[r + 1]; j++) want += (double)m.value[j] * x[m.column[j]];
    worst = std::max(worst, std::fabs(want - y[r]) / (1 + std::fabs(want)));
  }
  printf("%s\n", worst < 1e-4 ? "correct" : "incorrect");
  return worst < 1e-4 ? 0 : 1;
}
