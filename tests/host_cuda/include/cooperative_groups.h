// SPDX-License-Identifier: Apache-2.0
// The groups that lie within a block.
#pragma once
#include <cuda_runtime.h>

namespace cooperative_groups {
struct thread_block {
  void sync() const { __syncthreads(); }
  unsigned thread_rank() const { return host_cuda::rank(); }
  unsigned size() const { return host_cuda::threads(); }
  unsigned num_threads() const { return size(); }
  dim3 group_index() const { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  dim3 thread_index() const { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
};
inline thread_block this_thread_block() { return {}; }
template <unsigned N, class Parent = thread_block>
struct thread_block_tile {
  static_assert(N <= 32, "tiles of more than a warp are not here");
  unsigned mask() const { return (N == 32 ? ~0u : ((1u << N) - 1) << (host_cuda::lane() / N * N)); }
  unsigned thread_rank() const { return host_cuda::lane() % N; }
  static constexpr unsigned size() { return N; }
  static constexpr unsigned num_threads() { return N; }
  unsigned meta_group_rank() const { return host_cuda::rank() / N; }
  unsigned meta_group_size() const { return (host_cuda::threads() + N - 1) / N; }
  void sync() const { __syncwarp(mask()); }
  template <class T> T shfl(T v, int from) const { return __shfl_sync(mask(), v, from, N); }
  template <class T> T shfl_down(T v, unsigned by) const { return __shfl_down_sync(mask(), v, by, N); }
  template <class T> T shfl_up(T v, unsigned by) const { return __shfl_up_sync(mask(), v, by, N); }
  template <class T> T shfl_xor(T v, int bits) const { return __shfl_xor_sync(mask(), v, bits, N); }
  unsigned ballot(int p) const { return __ballot_sync(mask(), p) >> (host_cuda::lane() / N * N) & (N == 32 ? ~0u : (1u << N) - 1); }
  int any(int p) const { return __any_sync(mask(), p); }
  int all(int p) const { return __all_sync(mask(), p); }
};
template <unsigned N, class Parent> thread_block_tile<N, Parent> tiled_partition(const Parent&) { return {}; }
template <class G> void sync(const G& group) { group.sync(); }
template <class T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class G, class T, class F> T reduce(const G& group, T value, F both) { return host_cuda::reduce(group.mask(), value, both); }
}  // namespace cooperative_groups
