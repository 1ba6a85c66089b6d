// SPDX-License-Identifier: Apache-2.0
// What nvcc's host code registers before main, and launches.
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "driver.h"

namespace runtime {
namespace {

struct Binary {
    const void* image = nullptr;
    CUmodule module = nullptr;
    std::map<std::string, void**> managed;
    bool loaded = false;
};
struct Entry {
    Binary* binary;
    std::string name;
    CUfunction function = nullptr;
};
struct Symbol {
    Binary* binary;
    std::string name;
};
struct State {
    std::recursive_mutex mutex;
    std::map<const void*, Entry> kernels;
    std::map<const void*, Symbol> variables;
    std::vector<Binary*> binaries;
};
State& state() {
    static State* made = new State;
    return *made;
}
using Lock = std::lock_guard<std::recursive_mutex>;

thread_local cudaError_t last_error = cudaSuccess;

struct Configuration {
    dim3 grid, block;
    size_t shared;
    void* stream;
};
thread_local std::vector<Configuration> configurations;

cudaError_t loaded(Binary& binary) {
    if (binary.loaded) return cudaSuccess;
    const CUresult status = CU(cuModuleLoadData)(&binary.module, binary.image);
    if (status != CUDA_SUCCESS) return error_of(status);
    binary.loaded = true;
    for (auto& [name, host] : binary.managed) {
        CUdeviceptr at = 0;
        size_t bytes = 0;
        if (CU(cuModuleGetGlobal)(&at, &bytes, binary.module, name.c_str()) == CUDA_SUCCESS) *host = reinterpret_cast<void*>(at);
    }
    return cudaSuccess;
}

cudaError_t found(Entry& entry) {
    if (entry.function) return cudaSuccess;
    if (const cudaError_t status = loaded(*entry.binary); status != cudaSuccess) return status;
    const CUresult status = CU(cuModuleGetFunction)(&entry.function, entry.binary->module, entry.name.c_str());
    return status == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

}  // namespace

cudaError_t last(cudaError_t status) {
    if (status != cudaSuccess && status != cudaErrorNotReady) last_error = status;
    return status;
}

cudaError_t begin() {
    static const cudaError_t begun = [] {
        if (!driver_symbol("cuInit")) return cudaErrorInsufficientDriver;
        return error_of(CU(cuInit)(0));
    }();
    if (begun != cudaSuccess) return begun;
    thread_local bool bound = false;
    if (!bound) {
        bound = true;
        CUcontext context = nullptr;
        CU(cuCtxGetCurrent)(&context);
        if (!context && CU(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS) CU(cuCtxSetCurrent)(context);
    }
    return cudaSuccess;
}

CUfunction function_of(const void* host, cudaError_t& status) {
    Lock lock(state().mutex);
    const auto place = state().kernels.find(host);
    status = place == state().kernels.end() ? cudaErrorInvalidDeviceFunction : found(place->second);
    return status == cudaSuccess ? place->second.function : nullptr;
}

cudaError_t variable(const void* host, CUdeviceptr* at, size_t* bytes) {
    Lock lock(state().mutex);
    const auto place = state().variables.find(host);
    if (place == state().variables.end()) return cudaErrorInvalidSymbol;
    if (const cudaError_t status = loaded(*place->second.binary); status != cudaSuccess) return status;
    const CUresult status = CU(cuModuleGetGlobal)(at, bytes, place->second.binary->module, place->second.name.c_str());
    return status == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidSymbol;
}

}  // namespace runtime

using namespace runtime;

API cudaError_t cudaGetLastError() {
    const cudaError_t status = last_error;
    last_error = cudaSuccess;
    return status;
}
API cudaError_t cudaPeekAtLastError() { return last_error; }

API void** __cudaRegisterFatBinary(void* image) {
    Lock lock(state().mutex);
    auto* binary = new Binary;
    binary->image = image;
    state().binaries.push_back(binary);
    return reinterpret_cast<void**>(binary);
}
API void __cudaRegisterFatBinaryEnd(void**) {}
API void __cudaUnregisterFatBinary(void**) {}
API char __cudaInitModule(void**) {
    begin();
    for (Binary* binary : state().binaries)
        if (!binary->managed.empty()) loaded(*binary);
    return 1;
}
API void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
    Lock lock(state().mutex);
    state().kernels[host] = {reinterpret_cast<Binary*>(handle), name};
}
API void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t, int, int) {
    Lock lock(state().mutex);
    state().variables[host] = {reinterpret_cast<Binary*>(handle), name};
}
API void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int, size_t, int, int) {
    Lock lock(state().mutex);
    reinterpret_cast<Binary*>(handle)->managed[name] = host;
    state().variables[host] = {reinterpret_cast<Binary*>(handle), name};
}

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
    configurations.push_back({grid, block, shared, stream});
    return 0;
}
API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
    if (configurations.empty()) return cudaErrorMissingConfiguration;
    const Configuration c = configurations.back();
    configurations.pop_back();
    *grid = c.grid, *block = c.block, *shared = c.shared, *static_cast<void**>(stream) = c.stream;
    return cudaSuccess;
}

namespace {

cudaError_t launch(CUfunction f, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream, bool together) {
    CUlaunchConfig c{};
    CUlaunchAttribute cooperative{};
    cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    cooperative.value.cooperative = 1;
    c.gridDimX = grid.x, c.gridDimY = grid.y, c.gridDimZ = grid.z;
    c.blockDimX = block.x, c.blockDimY = block.y, c.blockDimZ = block.z;
    c.sharedMemBytes = static_cast<unsigned>(shared), c.hStream = stream;
    c.attrs = together ? &cooperative : nullptr, c.numAttrs = together;
    const CUresult status = CU(cuLaunchKernelEx)(&c, f, arguments, nullptr);
    return last(status == CUDA_ERROR_INVALID_VALUE ? cudaErrorInvalidConfiguration : error_of(status));
}

}  // namespace

API cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
    Lock lock(state().mutex);
    const auto place = state().kernels.find(host);
    if (place == state().kernels.end()) return cudaErrorInvalidDeviceFunction;
    *kernel = reinterpret_cast<cudaKernel_t>(&place->second);
    return cudaSuccess;
}
API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
    BEGIN();
    auto* entry = reinterpret_cast<Entry*>(kernel);
    if (!entry) return last(cudaErrorInvalidDeviceFunction);
    {
        Lock lock(state().mutex);
        if (const cudaError_t status = found(*entry); status != cudaSuccess) return last(status);
    }
    return launch(entry->function, grid, block, arguments, shared, stream, false);
}
API cudaError_t cudaLaunchKernel(const void* host, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
    BEGIN();
    cudaError_t status;
    const CUfunction f = function_of(host, status);
    return f ? launch(f, grid, block, arguments, shared, stream, false) : last(status);
}
API cudaError_t cudaLaunchCooperativeKernel(const void* host, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
    BEGIN();
    cudaError_t status;
    const CUfunction f = function_of(host, status);
    return f ? launch(f, grid, block, arguments, shared, stream, true) : last(status);
}
API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* host, void** arguments) {
    BEGIN();
    cudaError_t status;
    const CUfunction f = function_of(host, status);
    if (!f) return last(status);
    CUlaunchConfig c{};
    c.gridDimX = config->gridDim.x, c.gridDimY = config->gridDim.y, c.gridDimZ = config->gridDim.z;
    c.blockDimX = config->blockDim.x, c.blockDimY = config->blockDim.y, c.blockDimZ = config->blockDim.z;
    c.sharedMemBytes = static_cast<unsigned>(config->dynamicSmemBytes), c.hStream = config->stream;
    // both are the same structure
    c.attrs = reinterpret_cast<CUlaunchAttribute*>(config->attrs), c.numAttrs = config->numAttrs;
    CALL(CU(cuLaunchKernelEx)(&c, f, arguments, nullptr));
}
