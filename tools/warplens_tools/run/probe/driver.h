// SPDX-License-Identifier: Apache-2.0
// Driver calls as exceptions.
#pragma once

#include <cuda.h>

#include <stdexcept>
#include <string>

namespace warplens {

struct DriverError : std::runtime_error {
    DriverError(CUresult status, const std::string& what);
    CUresult status;
};

const char* name_of(CUresult status);
// The context is lost: every later call fails too.
bool is_sticky(CUresult status);
inline void check(CUresult status, const char* what) {
    if (status != CUDA_SUCCESS) throw DriverError(status, what);
}

// Thrown when a launch runs past its limit; the stream is still busy.
struct Hung : std::runtime_error {
    Hung() : std::runtime_error("the launch ran past its time limit") {}
};

// Device memory, and pinned memory of the host's, that a destructor frees. Not after a hang: freeing would wait for the
// launch as long as it runs, and the process is about to end.
void give_back(CUdeviceptr memory);
void give_back_host(void* memory);

// Waits for the stream; throws Hung after `seconds`, DriverError when a launch on it failed.
void wait(CUstream stream, double seconds);

double now();  // seconds, monotonic

// A function of the driver as CUDA `version` (12040 for 12.4) brought it; nullptr where the driver is older.
void* driver_entry(const char* name, int version);
template <class Function>
Function driver_function(const char* name, int version) {
    return reinterpret_cast<Function>(driver_entry(name, version));
}

}  // namespace warplens
