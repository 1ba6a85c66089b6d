// SPDX-License-Identifier: Apache-2.0
// Memory of the multiprocessors that no allocation shows: what one launch leaves there, the next could read.
#pragma once

#include <cuda.h>

#include "memory.h"

namespace warplens {

class Scrub {
   public:
    static constexpr int most_local = 4096;
    Scrub(const Helpers& helpers, CUstream stream);
    ~Scrub();
    Scrub(const Scrub&) = delete;
    Scrub& operator=(const Scrub&) = delete;

    // Overwrites all shared memory, nine in ten registers, and of local memory as much as a thread of either function has, up to 4 KiB.
    // Asynchronous, on the stream. Throws DriverError.
    void run(CUfunction one, CUfunction other);

   private:
    const Helpers& helpers_;
    CUstream stream_;
    CUfunction shared_ = nullptr, registers_ = nullptr;
    CUdeviceptr sink_ = 0;
    int processors_ = 0, bytes_ = 0;
    unsigned random_ = 0x9e3779b9u, pattern_ = 0;
};

}  // namespace warplens
