// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies on the CPU: they land when they are waited for, so that what is read too early shows.
#pragma once
#include <cuda_runtime.h>
#include <deque>
#include <map>

namespace host_cuda {
struct Copy { void* to; const void* from; std::size_t bytes, zeros; };
inline std::map<int, std::deque<std::vector<Copy>>> copies;
inline std::vector<Copy>& open_copies() { auto& mine = copies[rank()]; if (mine.empty()) mine.emplace_back(); return mine.back(); }
}  // namespace host_cuda
inline void __pipeline_memcpy_async(void* to, const void* from, std::size_t bytes, std::size_t zeros = 0) {
  bool whole = bytes == 4 || bytes == 8 || bytes == 16;
  if (!whole || reinterpret_cast<std::uintptr_t>(to) % bytes || reinterpret_cast<std::uintptr_t>(from) % bytes) host_cuda::fail("an asynchronous copy of %zu bytes is misaligned or of no size there is", bytes);
  host_cuda::open_copies().push_back({to, from, bytes, zeros});
}
inline void __pipeline_commit() { host_cuda::open_copies(); host_cuda::copies[host_cuda::rank()].emplace_back(); }
inline void __pipeline_wait_prior(std::size_t left) {
  auto& mine = host_cuda::copies[host_cuda::rank()];
  if (mine.empty()) mine.emplace_back();
  while (mine.size() > left + 1) {
    for (const auto& copy : mine.front()) {
      std::memcpy(copy.to, copy.from, copy.bytes - copy.zeros);
      std::memset(static_cast<char*>(copy.to) + copy.bytes - copy.zeros, 0, copy.zeros);
    }
    mine.pop_front();
  }
}
