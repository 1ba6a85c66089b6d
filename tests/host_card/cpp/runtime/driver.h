// SPDX-License-Identifier: Apache-2.0
// The runtime's way to the driver, which is loaded when it is first asked for.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace runtime {

inline void* driver_symbol(const char* name) {
    static void* library = [] {
        void* found = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
        if (!found) std::fprintf(stderr, "host card: %s\n", dlerror());
        return found;
    }();
    return library ? dlsym(library, name) : nullptr;
}

cudaError_t last(cudaError_t status);  // remembers an error of this thread
cudaError_t begin();                   // the driver and the context are there
CUfunction function_of(const void* host, cudaError_t& status);

inline cudaError_t error_of(CUresult status) { return static_cast<cudaError_t>(status); }
inline CUdeviceptr address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

}  // namespace runtime

#define NAME_OF_(name) #name
#define NAME_OF(name) NAME_OF_(name)
// A function of the driver by the name that cuda.h gives it.
#define CU(name) (*[] { static auto f = reinterpret_cast<decltype(&name)>(runtime::driver_symbol(NAME_OF(name))); return f; }())
#define API extern "C" __attribute__((visibility("default")))
#define BEGIN() \
    if (const cudaError_t begun = runtime::begin(); begun != cudaSuccess) return runtime::last(begun)
#define CALL(...) return runtime::last(runtime::error_of(__VA_ARGS__))
