// SPDX-License-Identifier: Apache-2.0
// Tensor cores on the host: every lane keeps the whole of each 16 by 16 matrix, so that a warp's are all alike.
#pragma once
#include <cuda_runtime.h>

namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int M, int N, int K, typename T, typename Layout = void>
struct fragment {
  static_assert(M == 16 && N == 16 && K == 16, "other shapes are not simulated");
  T x[256];
};

inline bool is_row_major(const row_major*) { return true; }
inline bool is_row_major(const col_major*) { return false; }

// Rows of sixteen bytes begin at sixteen, as in the matrices of bytes that CUDA's own samples load.
inline void check_aligned(const void* p, unsigned stride_bytes, unsigned row_bytes) {
  if (reinterpret_cast<size_t>(p) % (row_bytes < 32 ? row_bytes : 32) || stride_bytes % 16) {
    fprintf(stderr, "a matrix of a tensor core is not aligned: %zu %u\n", reinterpret_cast<size_t>(p) % 32, stride_bytes);
    abort();
  }
}

template <typename Use, typename T, typename Layout>
void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout>& f, const T* p, unsigned stride) {
  check_aligned(p, stride * sizeof(T), 16 * sizeof(T));
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j)
      f.x[i * 16 + j] = is_row_major(static_cast<Layout*>(nullptr)) ? p[i * stride + j] : p[j * stride + i];
}

template <typename T>
void fill_fragment(fragment<accumulator, 16, 16, 16, T>& f, T value) {
  for (T& x : f.x) x = value;
}

template <typename S, typename T, typename A, typename B>
void mma_sync(fragment<accumulator, 16, 16, 16, S>& d, const fragment<matrix_a, 16, 16, 16, T, A>& a,
              const fragment<matrix_b, 16, 16, 16, T, B>& b, const fragment<accumulator, 16, 16, 16, S>& c) {
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) {
      S sum = c.x[i * 16 + j];
      for (int k = 0; k < 16; ++k) sum += static_cast<S>(a.x[i * 16 + k]) * static_cast<S>(b.x[k * 16 + j]);
      d.x[i * 16 + j] = sum;
    }
}

template <typename T>
void store_matrix_sync(T* p, const fragment<accumulator, 16, 16, 16, T>& f, unsigned stride, layout_t layout) {
  check_aligned(p, stride * sizeof(T), 16 * sizeof(T));
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) p[layout == mem_row_major ? i * stride + j : j * stride + i] = f.x[i * 16 + j];
}

}  // namespace wmma
}  // namespace nvcuda
