// SPDX-License-Identifier: Apache-2.0
// The device itself; contexts, versions, errors. It is described as an H100 of two multiprocessors, less memory and a
// clock by which it does as many additions in a second as a core does: what is judged by those bounds holds here, too.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "card.h"

using namespace card;

namespace {

thread_local CUcontext current_context = nullptr;
CUcontext primary() {
    static int context;
    return reinterpret_cast<CUcontext>(&context);
}

void inject() {
    const char* path = std::getenv("CUDA_INJECTION64_PATH");
    if (!path || !*path) return;
    void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        std::fprintf(stderr, "host card: %s\n", dlerror());
        return;
    }
    if (auto* begin = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"))) begin();
}

const std::map<int, int>& attributes() {
    static const std::map<int, int> all = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10},
        {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 64 << 10},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7fffffff},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 4000},
        {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 2},
        {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2619000},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1 << 20},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 1},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 << 10},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
        {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
        {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 227 << 10},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
        {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    };
    return all;
}

}  // namespace

DRIVER(cuInit)(unsigned) {
    static std::once_flag once;
    arena();
    std::call_once(once, inject);
    return CUDA_SUCCESS;
}
DRIVER(cuDriverGetVersion)(int* version) {
    *version = 13000;
    return CUDA_SUCCESS;
}
DRIVER(cuDeviceGetCount)(int* count) {
    *count = 1;
    return CUDA_SUCCESS;
}
DRIVER(cuDeviceGet)(CUdevice* device, int number) {
    *device = 0;
    return number ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}
DRIVER(cuDeviceGetName)(char* name, int room, CUdevice) {
    std::snprintf(name, static_cast<std::size_t>(room), "host card (software, no GPU)");
    return CUDA_SUCCESS;
}
DRIVER(cuDeviceGetUuid_v2)(CUuuid* uuid, CUdevice) {
    std::memcpy(uuid->bytes, "host card 000000", 16);
    return CUDA_SUCCESS;
}
DRIVER(cuDeviceTotalMem_v2)(std::size_t* bytes, CUdevice) {
    *bytes = arena().most();
    return CUDA_SUCCESS;
}
DRIVER(cuDeviceGetAttribute)(int* value, CUdevice_attribute which, CUdevice) {
    const auto found = attributes().find(which);
    *value = found == attributes().end() ? 0 : found->second;
    return CUDA_SUCCESS;
}
DRIVER(cuDevicePrimaryCtxRetain)(CUcontext* context, CUdevice) {
    *context = primary();
    return CUDA_SUCCESS;
}
DRIVER(cuDevicePrimaryCtxRelease_v2)(CUdevice) { return CUDA_SUCCESS; }
DRIVER(cuDevicePrimaryCtxReset_v2)(CUdevice) { return drain(); }
DRIVER(cuCtxCreate_v2)(CUcontext* context, unsigned, CUdevice) {
    *context = current_context = primary();
    return CUDA_SUCCESS;
}
DRIVER(cuCtxDestroy_v2)(CUcontext) { return drain(); }
DRIVER(cuCtxGetCurrent)(CUcontext* context) {
    *context = current_context;
    return CUDA_SUCCESS;
}
DRIVER(cuCtxSetCurrent)(CUcontext context) {
    current_context = context;
    return CUDA_SUCCESS;
}
DRIVER(cuCtxGetDevice)(CUdevice* device) {
    *device = 0;
    return current_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
DRIVER(cuCtxGetLimit)(std::size_t* value, CUlimit) {
    *value = 1 << 20;
    return CUDA_SUCCESS;
}
DRIVER(cuCtxSetLimit)(CUlimit, std::size_t) { return CUDA_SUCCESS; }

namespace {

const std::map<int, std::pair<const char*, const char*>>& errors() {
#define ERROR(name, text) {name, {#name, text}}
    static const std::map<int, std::pair<const char*, const char*>> all = {
        ERROR(CUDA_SUCCESS, "no error"),
        ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
        ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
        ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
        ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
        ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
        ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
        ERROR(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
        ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
        ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
        ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
        ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
        ERROR(CUDA_ERROR_ASSERT, "device-side assert triggered"),
        ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
        ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
        ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
        ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
    };
#undef ERROR
    return all;
}

}  // namespace

DRIVER(cuGetErrorName)(CUresult status, const char** name) {
    const auto found = errors().find(status);
    *name = found == errors().end() ? "CUDA_ERROR_UNKNOWN" : found->second.first;
    return CUDA_SUCCESS;
}
DRIVER(cuGetErrorString)(CUresult status, const char** text) {
    const auto found = errors().find(status);
    *text = found == errors().end() ? "unknown error" : found->second.second;
    return CUDA_SUCCESS;
}
DRIVER(cuGetProcAddress_v2)(const char* name, void** entry, int, cuuint64_t, CUdriverProcAddressQueryResult* result) {
    *entry = nullptr;
    for (const char* version : {"_v3", "_v2", ""}) {
        *entry = dlsym(RTLD_DEFAULT, (std::string(name) + version).c_str());
        if (*entry) break;
    }
    if (!*entry) {
        Dl_info own;
        dladdr(reinterpret_cast<void*>(&impl_cuInit), &own);
        void* self = dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        for (const char* version : {"_v3", "_v2", ""})
            if (!*entry) *entry = dlsym(self, (std::string(name) + version).c_str());
    }
    if (result) *result = *entry ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *entry ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
