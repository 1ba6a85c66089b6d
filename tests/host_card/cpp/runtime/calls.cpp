// SPDX-License-Identifier: Apache-2.0
// The runtime's ordinary calls, each by the driver's.
#include <cstring>

#include "driver.h"

namespace runtime {
cudaError_t variable(const void* host, CUdeviceptr* at, size_t* bytes);
}
using namespace runtime;

API cudaError_t cudaMalloc(void** to, size_t bytes) {
    BEGIN();
    *to = nullptr;
    if (!bytes) return cudaSuccess;
    CALL(CU(cuMemAlloc)(reinterpret_cast<CUdeviceptr*>(to), bytes));
}
API cudaError_t cudaMallocAsync(void** to, size_t bytes, cudaStream_t stream) {
    BEGIN();
    CALL(CU(cuMemAllocAsync)(reinterpret_cast<CUdeviceptr*>(to), bytes, stream));
}
API cudaError_t cudaMallocManaged(void** to, size_t bytes, unsigned flags) {
    BEGIN();
    CALL(CU(cuMemAllocManaged)(reinterpret_cast<CUdeviceptr*>(to), bytes, flags));
}
API cudaError_t cudaMallocPitch(void** to, size_t* pitch, size_t width, size_t height) {
    BEGIN();
    CALL(CU(cuMemAllocPitch)(reinterpret_cast<CUdeviceptr*>(to), pitch, width, height, 4));
}
API cudaError_t cudaMallocHost(void** to, size_t bytes) {
    BEGIN();
    CALL(CU(cuMemHostAlloc)(to, bytes, 0));
}
API cudaError_t cudaHostAlloc(void** to, size_t bytes, unsigned flags) {
    BEGIN();
    CALL(CU(cuMemHostAlloc)(to, bytes, flags));
}
API cudaError_t cudaFree(void* at) {
    BEGIN();
    if (!at) return cudaSuccess;
    CALL(CU(cuMemFree)(address(at)));
}
API cudaError_t cudaFreeAsync(void* at, cudaStream_t stream) {
    BEGIN();
    CALL(CU(cuMemFreeAsync)(address(at), stream));
}
API cudaError_t cudaFreeHost(void* at) {
    BEGIN();
    CALL(CU(cuMemFreeHost)(at));
}
API cudaError_t cudaHostGetDevicePointer(void** to, void* host, unsigned flags) {
    BEGIN();
    CALL(CU(cuMemHostGetDevicePointer)(reinterpret_cast<CUdeviceptr*>(to), host, flags));
}
API cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    BEGIN();
    CALL(CU(cuMemGetInfo)(free, total));
}

API cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    BEGIN();
    if (!bytes) return cudaSuccess;
    switch (kind) {
        case cudaMemcpyHostToDevice: CALL(CU(cuMemcpyHtoDAsync)(address(to), from, bytes, stream));
        case cudaMemcpyDeviceToHost: CALL(CU(cuMemcpyDtoHAsync)(to, address(from), bytes, stream));
        case cudaMemcpyDeviceToDevice: CALL(CU(cuMemcpyDtoDAsync)(address(to), address(from), bytes, stream));
        default: CALL(CU(cuMemcpyAsync)(address(to), address(from), bytes, stream));
    }
}
API cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    BEGIN();
    if (!bytes) return cudaSuccess;
    switch (kind) {
        case cudaMemcpyHostToHost: CALL(CU(cuMemcpy)(address(to), address(from), bytes));
        case cudaMemcpyHostToDevice: CALL(CU(cuMemcpyHtoD)(address(to), from, bytes));
        case cudaMemcpyDeviceToHost: CALL(CU(cuMemcpyDtoH)(to, address(from), bytes));
        case cudaMemcpyDeviceToDevice: CALL(CU(cuMemcpyDtoD)(address(to), address(from), bytes));
        default: CALL(CU(cuMemcpy)(address(to), address(from), bytes));
    }
}
namespace {

CUDA_MEMCPY2D plane(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind kind) {
    CUDA_MEMCPY2D c{};
    const bool from_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
    const bool to_host = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
    c.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE, c.srcHost = from, c.srcDevice = address(from);
    c.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE, c.dstHost = to, c.dstDevice = address(to);
    c.srcPitch = from_pitch, c.dstPitch = to_pitch, c.WidthInBytes = width, c.Height = height;
    return c;
}

}  // namespace
API cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind kind) {
    BEGIN();
    const CUDA_MEMCPY2D c = plane(to, to_pitch, from, from_pitch, width, height, kind);
    CALL(CU(cuMemcpy2D)(&c));
}
API cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                                  cudaMemcpyKind kind, cudaStream_t stream) {
    BEGIN();
    const CUDA_MEMCPY2D c = plane(to, to_pitch, from, from_pitch, width, height, kind);
    CALL(CU(cuMemcpy2DAsync)(&c, stream));
}
API cudaError_t cudaMemset(void* at, int value, size_t bytes) {
    BEGIN();
    CALL(CU(cuMemsetD8)(address(at), static_cast<unsigned char>(value), bytes));
}
API cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
    BEGIN();
    CALL(CU(cuMemsetD8Async)(address(at), static_cast<unsigned char>(value), bytes, stream));
}
API cudaError_t cudaMemset2D(void* at, size_t pitch, int value, size_t width, size_t height) {
    BEGIN();
    CALL(CU(cuMemsetD2D8Async)(address(at), pitch, static_cast<unsigned char>(value), width, height, nullptr));
}

API cudaError_t cudaGetSymbolAddress(void** to, const void* symbol) {
    BEGIN();
    size_t bytes;
    return last(variable(symbol, reinterpret_cast<CUdeviceptr*>(to), &bytes));
}
API cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
    BEGIN();
    CUdeviceptr at;
    return last(variable(symbol, &at, bytes));
}
API cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
    BEGIN();
    CUdeviceptr at = 0;
    size_t most = 0;
    if (const cudaError_t status = variable(symbol, &at, &most); status != cudaSuccess) return last(status);
    if (offset + bytes > most) return last(cudaErrorInvalidValue);
    return cudaMemcpyAsync(reinterpret_cast<void*>(at + offset), from, bytes, kind, stream);
}
API cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
    const cudaError_t status = cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, nullptr);
    return status != cudaSuccess ? status : last(error_of(CU(cuStreamSynchronize)(nullptr)));
}
API cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
    BEGIN();
    CUdeviceptr at = 0;
    size_t most = 0;
    if (const cudaError_t status = variable(symbol, &at, &most); status != cudaSuccess) return last(status);
    if (offset + bytes > most) return last(cudaErrorInvalidValue);
    return cudaMemcpyAsync(to, reinterpret_cast<void*>(at + offset), bytes, kind, stream);
}
API cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
    const cudaError_t status = cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, nullptr);
    return status != cudaSuccess ? status : last(error_of(CU(cuStreamSynchronize)(nullptr)));
}

API cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    BEGIN();
    CALL(CU(cuStreamCreate)(stream, 0));
}
API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    BEGIN();
    CALL(CU(cuStreamCreate)(stream, flags));
}
API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
    BEGIN();
    CALL(CU(cuStreamCreateWithPriority)(stream, flags, priority));
}
API cudaError_t cudaStreamDestroy(cudaStream_t stream) { CALL(CU(cuStreamDestroy)(stream)); }
API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    BEGIN();
    CALL(CU(cuStreamSynchronize)(stream));
}
API cudaError_t cudaStreamQuery(cudaStream_t stream) {
    BEGIN();
    CALL(CU(cuStreamQuery)(stream));
}
API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) { CALL(CU(cuStreamWaitEvent)(stream, event, flags)); }
API cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* with) { CALL(CU(cuLaunchHostFunc)(stream, function, with)); }
API cudaError_t cudaDeviceSynchronize() {
    BEGIN();
    CALL(CU(cuCtxSynchronize)());
}
API cudaError_t cudaEventCreate(cudaEvent_t* event) {
    BEGIN();
    CALL(CU(cuEventCreate)(event, 0));
}
API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    BEGIN();
    CALL(CU(cuEventCreate)(event, flags));
}
API cudaError_t cudaEventDestroy(cudaEvent_t event) { CALL(CU(cuEventDestroy)(event)); }
API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { CALL(CU(cuEventRecord)(event, stream)); }
API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) { CALL(CU(cuEventRecord)(event, stream)); }
API cudaError_t cudaEventSynchronize(cudaEvent_t event) { CALL(CU(cuEventSynchronize)(event)); }
API cudaError_t cudaEventQuery(cudaEvent_t event) { CALL(CU(cuEventQuery)(event)); }
API cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) { CALL(CU(cuEventElapsedTime)(ms, from, to)); }
