#pragma once

#include <cstdint>

#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 800)
#define CUTE_ARCH_CP_ASYNC_SM80_ENABLED
#endif

namespace mini {

/// Copies sixteen bytes from global to shared memory with cp.async, cached in L2 only.
template <class TS, class TD = TS>
struct SM80_CP_ASYNC_CACHEGLOBAL {
  CUTE_HOST_DEVICE static void copy(TS const& source, TD& destination) {
#if defined(CUTE_ARCH_CP_ASYNC_SM80_ENABLED)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\n" ::"r"(0), "l"(&source), "n"(sizeof(TS)));
#else
    CUTE_INVALID_CONTROL_PATH("cp.async is not there");
#endif
  }
};

/// Closes a group of asynchronous copies.
CUTE_HOST_DEVICE void cp_async_fence() { asm volatile("cp.async.commit_group;\n" ::); }

/// Waits until at most N groups of asynchronous copies are in flight.
template <int N>
CUTE_HOST_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(N));
}

}  // namespace mini
