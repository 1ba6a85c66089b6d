// SPDX-License-Identifier: Apache-2.0
// Launches, and what is asked of functions.
#include <cstdio>
#include <mutex>

#include "card.h"

using namespace card;

namespace {

constexpr u64 kMostShared = 227 << 10;

CUresult status_of(Fault fault) {
    switch (fault) {
        case Fault::none: return CUDA_SUCCESS;
        case Fault::address: return CUDA_ERROR_ILLEGAL_ADDRESS;
        case Fault::misaligned: return CUDA_ERROR_MISALIGNED_ADDRESS;
        case Fault::trap: return CUDA_ERROR_LAUNCH_FAILED;
        case Fault::assertion: return CUDA_ERROR_ASSERT;
        case Fault::unsupported: return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_ERROR_UNKNOWN;
}

std::vector<u8> gathered(const Kernel& kernel, void** parameters, void** extra) {
    u32 end = 16;
    for (u32 i = 0; i < kernel.parameter_count; ++i) end = std::max(end, kernel.parameters[i].offset + kernel.parameters[i].bytes);
    std::vector<u8> found(end);
    if (parameters) {
        for (u32 i = 0; i < kernel.parameter_count; ++i)
            std::memcpy(found.data() + kernel.parameters[i].offset, parameters[i], kernel.parameters[i].bytes);
    } else if (extra) {
        const void* from = nullptr;
        std::size_t bytes = 0;
        for (void** item = extra; *item != CU_LAUNCH_PARAM_END; item += 2) {
            if (*item == CU_LAUNCH_PARAM_BUFFER_POINTER) from = item[1];
            if (*item == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<std::size_t*>(item[1]);
        }
        if (from) std::memcpy(found.data(), from, std::min<std::size_t>(bytes, end));
    }
    return found;
}

CUresult asked_for(const CUlaunchConfig& c) {
    for (unsigned i = 0; i < c.numAttrs; ++i) {
        const auto& value = c.attrs[i].value;
        if (c.attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && value.clusterDim.x * value.clusterDim.y * value.clusterDim.z > 1) {
            std::fprintf(stderr, "host card: clusters of blocks are not there\n");
            return CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    return CUDA_SUCCESS;
}

}  // namespace

namespace card {

const char* symbol_of(CUfunction f) { return f ? function_of(f)->kernel->name : nullptr; }

CUresult submit(const CUlaunchConfig& c, Function* function, void** parameters, void** extra) {
    if (sticky() != CUDA_SUCCESS) return sticky();
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    const Kernel& kernel = *function->kernel;
    const u64 threads = u64{c.blockDimX} * c.blockDimY * c.blockDimZ, blocks = u64{c.gridDimX} * c.gridDimY * c.gridDimZ;
    if (!threads || !blocks || threads > 1024 || c.blockDimZ > 64 || c.gridDimX > 0x7fffffffu || c.gridDimY > 65535 || c.gridDimZ > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    if (blocks >> 32) return CUDA_ERROR_NOT_SUPPORTED;
    if (threads > kernel.most_threads) return CUDA_ERROR_INVALID_VALUE;
    if (c.sharedMemBytes > static_cast<unsigned>(function->dynamic_most) || kernel.static_shared + u64{c.sharedMemBytes} > kMostShared)
        return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult status = asked_for(c); status != CUDA_SUCCESS) return status;
    auto work = std::make_shared<Work>();
    *work = {function, {c.gridDimX, c.gridDimY, c.gridDimZ}, {c.blockDimX, c.blockDimY, c.blockDimZ}, c.sharedMemBytes, gathered(kernel, parameters, extra)};
    static std::atomic<u64> launches{0};
    const u64 number = ++launches;
    enqueue(c.hStream, [work, number] {
        const std::int64_t start = nanoseconds();
        const Fault fault = run(*work, number);
        const std::int64_t end = nanoseconds();
        if (fault != Fault::none) return set_sticky(status_of(fault));
        note({work->function->kernel->name, start, end, {work->grid[0], work->grid[1], work->grid[2]},
              {work->block[0], work->block[1], work->block[2]}, work->shared});
    });
    return CUDA_SUCCESS;
}

}  // namespace card

DRIVER(cuLaunchKernel)(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                       CUstream stream, void** parameters, void** extra) {
    CUlaunchConfig c{};
    c.gridDimX = gx, c.gridDimY = gy, c.gridDimZ = gz, c.blockDimX = bx, c.blockDimY = by, c.blockDimZ = bz;
    c.sharedMemBytes = shared, c.hStream = stream;
    return submit(c, function_of(f), parameters, extra);
}
DRIVER(cuLaunchKernelEx)(const CUlaunchConfig* config, CUfunction f, void** parameters, void** extra) {
    return submit(*config, function_of(f), parameters, extra);
}
DRIVER(cuLaunchCooperativeKernel)(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                  unsigned shared, CUstream stream, void** parameters) {
    return impl_cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, parameters, nullptr);
}
DRIVER(cuFuncGetAttribute)(int* value, CUfunction_attribute which, CUfunction f) {
    const Function& function = *function_of(f);
    switch (which) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = static_cast<int>(function.kernel->most_threads); break;
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = static_cast<int>(function.kernel->static_shared); break;
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = 0; break;
        case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 90; break;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = function.dynamic_most; break;
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = function.carve_out; break;
        default: *value = 0;
    }
    return CUDA_SUCCESS;
}
DRIVER(cuFuncSetAttribute)(CUfunction f, CUfunction_attribute which, int value) {
    Function& function = *function_of(f);
    if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (value < 0 || function.kernel->static_shared + static_cast<u64>(value) > kMostShared) return CUDA_ERROR_INVALID_VALUE;
        function.dynamic_most = value;
    } else if (which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
        function.carve_out = value;
    }
    return CUDA_SUCCESS;
}
DRIVER(cuFuncSetCacheConfig)(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor)(int* blocks, CUfunction f, int threads, std::size_t shared) {
    const u64 each = function_of(f)->kernel->static_shared + shared + 1024;
    *blocks = static_cast<int>(std::min<u64>(std::min<u64>(32, 2048 / ((std::max(threads, 1) + 31) / 32 * 32)), (228 << 10) / each));
    return CUDA_SUCCESS;
}
DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(int* blocks, CUfunction f, int threads, std::size_t shared, unsigned) {
    return impl_cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, threads, shared);
}
DRIVER(cuOccupancyMaxPotentialBlockSize)(int* grid, int* block, CUfunction f, CUoccupancyB2DSize sizes, std::size_t shared, int most) {
    *block = static_cast<int>(std::min<u32>(most ? static_cast<u32>(most) : 1024, function_of(f)->kernel->most_threads));
    int each = 0;
    impl_cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, f, *block, sizes ? sizes(*block) : shared);
    *grid = each * 2;
    return CUDA_SUCCESS;
}
