// SPDX-License-Identifier: Apache-2.0
// The program's live device memory, followed through the driver's allocation calls.
#pragma once

#include <cuda.h>
#include <cupti.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

namespace warplens {

struct Allocation {
    CUdeviceptr base;
    std::size_t bytes;
};

class Allocations {
   public:
    // Called for every driver API callback listed by `watched`; ignores the others.
    void follow(CUpti_CallbackId id, const CUpti_CallbackData* call);
    std::vector<Allocation> live() const;
    // Kinds of memory the program uses that cannot be compared ("a surface"); empty if none.
    std::vector<const char*> opaque() const;
    void add_opaque(const char* kind);

    static const std::vector<CUpti_CallbackId>& watched();

   private:
    void add(CUdeviceptr base, std::size_t bytes);
    void remove(CUdeviceptr base);
    void allocate(CUpti_CallbackId id, const CUpti_CallbackData* call);
    void release(CUpti_CallbackId id, const CUpti_CallbackData* call);

    mutable std::mutex mutex_;
    std::map<CUdeviceptr, std::size_t> live_;
    std::vector<const char*> opaque_;
};

}  // namespace warplens
