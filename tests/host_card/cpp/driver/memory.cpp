// SPDX-License-Identifier: Apache-2.0
// Calls about memory.
#include <mutex>

#include "card.h"

using namespace card;

namespace {

std::recursive_mutex mutex;
using Lock = std::lock_guard<std::recursive_mutex>;

CUresult allocate(CUdeviceptr* to, std::size_t bytes, Memory kind) {
    Lock lock(mutex);
    if (sticky() != CUDA_SUCCESS) return sticky();
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    *to = arena().allocate(bytes, kind);
    return *to ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult release(CUdeviceptr address) {
    if (!address) return CUDA_SUCCESS;
    const CUresult status = drain();
    if (status != CUDA_SUCCESS) return status;
    Lock lock(mutex);
    return arena().release(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Whether a range lies in one allocation, or outside of the card's memory altogether.
bool whole(const void* at, std::size_t bytes, bool device) {
    const auto address = reinterpret_cast<u64>(at);
    if (address - kArena >= kSpan) return !device;
    Lock lock(mutex);
    const Allocation* found = arena().find(address);
    // a module's variables are nobody's allocation
    return !found || address + bytes <= found->base + found->bytes;
}
bool pinned(const void* at) { return reinterpret_cast<u64>(at) - kArena < kSpan; }

// Whoever copies from or to the program's own memory waits for it.
CUresult copy(CUstream stream, void* to, const void* from, std::size_t bytes, bool waits) {
    if (sticky() != CUDA_SUCCESS) return sticky();
    if (!bytes) return CUDA_SUCCESS;
    if (!to || !from || !whole(to, bytes, false) || !whole(from, bytes, false)) return CUDA_ERROR_INVALID_VALUE;
    const u64 ticket = enqueue(stream, [=] { std::memmove(to, from, bytes); });
    return waits || !pinned(to) || !pinned(from) ? wait_for(ticket) : CUDA_SUCCESS;
}

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

template <class T>
CUresult set(CUstream stream, CUdeviceptr at, std::size_t pitch, T value, std::size_t width, std::size_t height, bool waits) {
    if (sticky() != CUDA_SUCCESS) return sticky();
    if (!width || !height) return CUDA_SUCCESS;
    if (!whole(pointer(at), (height - 1) * pitch + width * sizeof(T), true)) return CUDA_ERROR_INVALID_VALUE;
    const u64 ticket = enqueue(stream, [=] {
        for (std::size_t row = 0; row < height; ++row) {
            auto* here = reinterpret_cast<T*>(at + row * pitch);
            std::fill(here, here + width, value);
        }
    });
    return waits ? wait_for(ticket) : CUDA_SUCCESS;
}

CUresult copy_box(CUstream stream, const CUDA_MEMCPY3D& c, bool waits) {
    auto end = [](CUmemorytype kind, const void* host, CUdeviceptr device) {
        return kind == CU_MEMORYTYPE_HOST ? reinterpret_cast<u64>(host) : device;
    };
    if (c.srcMemoryType == CU_MEMORYTYPE_ARRAY || c.dstMemoryType == CU_MEMORYTYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
    const u64 from = end(c.srcMemoryType, c.srcHost, c.srcDevice), to = end(c.dstMemoryType, c.dstHost, c.dstDevice);
    const CUDA_MEMCPY3D held = c;
    const u64 ticket = enqueue(stream, [=] {
        for (std::size_t z = 0; z < held.Depth; ++z)
            for (std::size_t y = 0; y < held.Height; ++y) {
                const u64 a = from + held.srcXInBytes + held.srcPitch * (held.srcY + y + held.srcHeight * (held.srcZ + z));
                const u64 b = to + held.dstXInBytes + held.dstPitch * (held.dstY + y + held.dstHeight * (held.dstZ + z));
                std::memmove(pointer(b), pointer(a), held.WidthInBytes);
            }
    });
    return waits || !pinned(pointer(from)) || !pinned(pointer(to)) ? wait_for(ticket) : sticky();
}

CUDA_MEMCPY3D box_of(const CUDA_MEMCPY2D& c) {
    CUDA_MEMCPY3D b{};
    b.srcXInBytes = c.srcXInBytes, b.srcY = c.srcY, b.srcMemoryType = c.srcMemoryType, b.srcHost = c.srcHost;
    b.srcDevice = c.srcDevice, b.srcPitch = c.srcPitch, b.dstXInBytes = c.dstXInBytes, b.dstY = c.dstY;
    b.dstMemoryType = c.dstMemoryType, b.dstHost = c.dstHost, b.dstDevice = c.dstDevice, b.dstPitch = c.dstPitch;
    b.WidthInBytes = c.WidthInBytes, b.Height = c.Height, b.Depth = 1;
    return b;
}

}  // namespace

DRIVER(cuMemAlloc_v2)(CUdeviceptr* to, std::size_t bytes) { return allocate(to, bytes, Memory::device); }
DRIVER(cuMemAllocManaged)(CUdeviceptr* to, std::size_t bytes, unsigned) { return allocate(to, bytes, Memory::managed); }
DRIVER(cuMemAllocAsync)(CUdeviceptr* to, std::size_t bytes, CUstream) { return allocate(to, bytes, Memory::device); }
DRIVER(cuMemAllocPitch_v2)(CUdeviceptr* to, std::size_t* pitch, std::size_t width, std::size_t height, unsigned) {
    *pitch = (width + 511) / 512 * 512;
    return allocate(to, *pitch * height, Memory::device);
}
DRIVER(cuMemHostAlloc)(void** to, std::size_t bytes, unsigned) {
    return allocate(reinterpret_cast<CUdeviceptr*>(to), bytes, Memory::pinned);
}
DRIVER(cuMemAllocHost_v2)(void** to, std::size_t bytes) {
    return allocate(reinterpret_cast<CUdeviceptr*>(to), bytes, Memory::pinned);
}
DRIVER(cuMemFree_v2)(CUdeviceptr address) { return release(address); }
DRIVER(cuMemFreeAsync)(CUdeviceptr address, CUstream) { return release(address); }
DRIVER(cuMemFreeHost)(void* address) { return release(reinterpret_cast<CUdeviceptr>(address)); }
DRIVER(cuMemHostGetDevicePointer_v2)(CUdeviceptr* to, void* host, unsigned) {
    *to = reinterpret_cast<CUdeviceptr>(host);
    return pinned(host) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
DRIVER(cuMemGetInfo_v2)(std::size_t* free, std::size_t* total) {
    Lock lock(mutex);
    *total = arena().most();
    *free = *total - arena().used();
    return CUDA_SUCCESS;
}
DRIVER(cuMemGetAddressRange_v2)(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
    Lock lock(mutex);
    const Allocation* found = arena().find(address);
    if (!found) return CUDA_ERROR_NOT_FOUND;
    if (base) *base = found->base;
    if (bytes) *bytes = found->bytes;
    return CUDA_SUCCESS;
}
DRIVER(cuPointerGetAttribute)(void* to, CUpointer_attribute which, CUdeviceptr address) {
    Lock lock(mutex);
    const Allocation* found = arena().find(address);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    switch (which) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *static_cast<unsigned*>(to) = found->kind == Memory::pinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: *static_cast<unsigned*>(to) = found->kind == Memory::managed; return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *static_cast<CUdeviceptr*>(to) = found->base; return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *static_cast<std::size_t*>(to) = found->bytes; return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *static_cast<CUdeviceptr*>(to) = address; return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int*>(to) = 0; return CUDA_SUCCESS;
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

DRIVER(cuMemcpy)(CUdeviceptr to, CUdeviceptr from, std::size_t n) { return copy(nullptr, pointer(to), pointer(from), n, true); }
DRIVER(cuMemcpyAsync)(CUdeviceptr to, CUdeviceptr from, std::size_t n, CUstream s) { return copy(s, pointer(to), pointer(from), n, false); }
DRIVER(cuMemcpyHtoD_v2)(CUdeviceptr to, const void* from, std::size_t n) { return copy(nullptr, pointer(to), from, n, true); }
DRIVER(cuMemcpyDtoH_v2)(void* to, CUdeviceptr from, std::size_t n) { return copy(nullptr, to, pointer(from), n, true); }
DRIVER(cuMemcpyDtoD_v2)(CUdeviceptr to, CUdeviceptr from, std::size_t n) { return copy(nullptr, pointer(to), pointer(from), n, true); }
DRIVER(cuMemcpyHtoDAsync_v2)(CUdeviceptr to, const void* from, std::size_t n, CUstream s) { return copy(s, pointer(to), from, n, false); }
DRIVER(cuMemcpyDtoHAsync_v2)(void* to, CUdeviceptr from, std::size_t n, CUstream s) { return copy(s, to, pointer(from), n, false); }
DRIVER(cuMemcpyDtoDAsync_v2)(CUdeviceptr to, CUdeviceptr from, std::size_t n, CUstream s) { return copy(s, pointer(to), pointer(from), n, false); }
DRIVER(cuMemcpy2D_v2)(const CUDA_MEMCPY2D* c) { return copy_box(nullptr, box_of(*c), true); }
DRIVER(cuMemcpy2DUnaligned_v2)(const CUDA_MEMCPY2D* c) { return copy_box(nullptr, box_of(*c), true); }
DRIVER(cuMemcpy2DAsync_v2)(const CUDA_MEMCPY2D* c, CUstream s) { return copy_box(s, box_of(*c), false); }
DRIVER(cuMemcpy3D_v2)(const CUDA_MEMCPY3D* c) { return copy_box(nullptr, *c, true); }
DRIVER(cuMemcpy3DAsync_v2)(const CUDA_MEMCPY3D* c, CUstream s) { return copy_box(s, *c, false); }

DRIVER(cuMemsetD8_v2)(CUdeviceptr at, unsigned char v, std::size_t n) { return set<u8>(nullptr, at, 0, v, n, 1, false); }
DRIVER(cuMemsetD8Async)(CUdeviceptr at, unsigned char v, std::size_t n, CUstream s) { return set<u8>(s, at, 0, v, n, 1, false); }
DRIVER(cuMemsetD16Async)(CUdeviceptr at, unsigned short v, std::size_t n, CUstream s) { return set<u16>(s, at, 0, v, n, 1, false); }
DRIVER(cuMemsetD32_v2)(CUdeviceptr at, unsigned v, std::size_t n) { return set<u32>(nullptr, at, 0, v, n, 1, false); }
DRIVER(cuMemsetD32Async)(CUdeviceptr at, unsigned v, std::size_t n, CUstream s) { return set<u32>(s, at, 0, v, n, 1, false); }
DRIVER(cuMemsetD2D8Async)(CUdeviceptr at, std::size_t p, unsigned char v, std::size_t w, std::size_t h, CUstream s) { return set<u8>(s, at, p, v, w, h, false); }
DRIVER(cuMemsetD2D16Async)(CUdeviceptr at, std::size_t p, unsigned short v, std::size_t w, std::size_t h, CUstream s) { return set<u16>(s, at, p, v, w, h, false); }
DRIVER(cuMemsetD2D32Async)(CUdeviceptr at, std::size_t p, unsigned v, std::size_t w, std::size_t h, CUstream s) { return set<u32>(s, at, p, v, w, h, false); }
