// SPDX-License-Identifier: Apache-2.0
#include "scrub.h"

#include <algorithm>

#include "driver.h"

namespace warplens {

Scrub::Scrub(const Helpers& helpers, CUstream stream) : helpers_(helpers), stream_(stream) {
    CUdevice device;
    check(cuCtxGetDevice(&device), "cuCtxGetDevice");
    check(cuDeviceGetAttribute(&processors_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device), "cuDeviceGetAttribute");
    check(cuDeviceGetAttribute(&bytes_, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device), "cuDeviceGetAttribute");
    shared_ = helpers_.named("warplens_scrub_shared");
    registers_ = helpers_.named("warplens_scrub_registers");
    check(cuFuncSetAttribute(shared_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes_), "cuFuncSetAttribute");
    check(cuMemAlloc(&sink_, 256), "cuMemAlloc");
}

Scrub::~Scrub() {
    give_back(sink_);
}

void Scrub::run(CUfunction one, CUfunction other) {
    random_ = random_ * 1664525u + 1013904223u;
    // as a float between 2 and 2^33: it shows in a sum of ordinary numbers that it should not be in
    pattern_ = (random_ >> 4) | 0x40000000u;
    unsigned words = static_cast<unsigned>(bytes_) / 4;
    // a block has all of a multiprocessor's: two rounds of them reach every one
    const auto blocks = 2 * static_cast<unsigned>(processors_);
    void* shared[] = {&words, &pattern_, &sink_};
    check(cuLaunchKernel(shared_, blocks, 1, 1, 1024, 1, 1, static_cast<unsigned>(bytes_), stream_, shared, nullptr), "scrubbing");
    unsigned turns = 2;
    void* registers[] = {&pattern_, &turns, &sink_};
    check(cuLaunchKernel(registers_, blocks, 1, 1, 256, 1, 1, 0, stream_, registers, nullptr), "scrubbing");
    int local = 0;
    for (CUfunction function : {one, other}) {
        int bytes = 0;
        check(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function), "cuFuncGetAttribute");
        local = std::max(local, bytes);
    }
    if (!local) return;
    const CUfunction over = helpers_.named(local <= 256    ? "warplens_scrub_local_256"
                                           : local <= 1024 ? "warplens_scrub_local_1024"
                                                           : "warplens_scrub_local_4096");
    void* arguments[] = {&pattern_, &sink_};
    check(cuLaunchKernel(over, blocks, 1, 1, 1024, 1, 1, 0, stream_, arguments, nullptr), "scrubbing");
}

}  // namespace warplens
