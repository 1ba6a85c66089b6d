// SPDX-License-Identifier: Apache-2.0
// Devices, functions' attributes, errors' names.
#include <cstring>

#include "driver.h"

using namespace runtime;

namespace {

int attribute(int which) {
    int value = 0;
    CU(cuDeviceGetAttribute)(&value, static_cast<CUdevice_attribute>(which), 0);
    return value;
}

}  // namespace

API cudaError_t cudaGetDeviceCount(int* count) {
    BEGIN();
    CALL(CU(cuDeviceGetCount)(count));
}
API cudaError_t cudaGetDevice(int* device) {
    BEGIN();
    *device = 0;
    return cudaSuccess;
}
API cudaError_t cudaSetDevice(int device) {
    BEGIN();
    return last(device ? cudaErrorInvalidDevice : cudaSuccess);
}
API cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return cudaSetDevice(device); }
API cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
API cudaError_t cudaDeviceReset() {
    BEGIN();
    CALL(CU(cuCtxSynchronize)());
}
API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
    BEGIN();
    *value = attribute(which);
    return cudaSuccess;
}
API cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
API cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
API cudaError_t cudaDriverGetVersion(int* version) {
    BEGIN();
    CALL(CU(cuDriverGetVersion)(version));
}
API cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
    BEGIN();
    std::memset(p, 0, sizeof *p);
    CU(cuDeviceGetName)(p->name, sizeof p->name, 0);
    CU(cuDeviceTotalMem)(&p->totalGlobalMem, 0);
    p->sharedMemPerBlock = static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
    p->sharedMemPerBlockOptin = static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
    p->sharedMemPerMultiprocessor = static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
    p->regsPerBlock = p->regsPerMultiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->totalConstMem = 64 << 10;
    p->major = 9, p->minor = 0;
    p->multiProcessorCount = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    p->maxThreadsPerMultiProcessor = 2048;
    p->maxBlocksPerMultiProcessor = 32;
    p->l2CacheSize = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    p->memoryBusWidth = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
    p->unifiedAddressing = p->concurrentKernels = p->managedMemory = p->canMapHostMemory = p->cooperativeLaunch = 1;
    return cudaSuccess;
}

API cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute which, int value) {
    BEGIN();
    cudaError_t status;
    const CUfunction f = function_of(host, status);
    if (!f) return last(status);
    CALL(CU(cuFuncSetAttribute)(f, static_cast<CUfunction_attribute>(which), value));
}
API cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* host) {
    BEGIN();
    cudaError_t status;
    const CUfunction f = function_of(host, status);
    if (!f) return last(status);
    std::memset(attributes, 0, sizeof *attributes);
    auto get = [&](CUfunction_attribute which) {
        int value = 0;
        CU(cuFuncGetAttribute)(&value, which, f);
        return value;
    };
    attributes->maxThreadsPerBlock = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    attributes->sharedSizeBytes = static_cast<size_t>(get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
    attributes->numRegs = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
    attributes->binaryVersion = attributes->ptxVersion = 90;
    attributes->maxDynamicSharedSizeBytes = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    return cudaSuccess;
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host, int threads, size_t shared) {
    BEGIN();
    cudaError_t status;
    const CUfunction f = function_of(host, status);
    if (!f) return last(status);
    CALL(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(blocks, f, threads, shared));
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* host, int threads, size_t shared, unsigned) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, host, threads, shared);
}
API const char* cudaGetErrorName(cudaError_t status) {
    const char* name = "cudaErrorUnknown";
    if (begin() == cudaSuccess) CU(cuGetErrorName)(static_cast<CUresult>(status), &name);
    return name;
}
API const char* cudaGetErrorString(cudaError_t status) {
    const char* text = "unknown error";
    if (status == cudaErrorInvalidConfiguration) return "invalid configuration argument";
    if (begin() == cudaSuccess) CU(cuGetErrorString)(static_cast<CUresult>(status), &text);
    return text;
}
API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void* at) {
    BEGIN();
    std::memset(found, 0, sizeof *found);
    unsigned kind = 0, managed = 0;
    if (CU(cuPointerGetAttribute)(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(at)) != CUDA_SUCCESS) return cudaSuccess;
    CU(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address(at));
    found->type = managed ? cudaMemoryTypeManaged : kind == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    found->devicePointer = found->hostPointer = const_cast<void*>(at);
    return cudaSuccess;
}
