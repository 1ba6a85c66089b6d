// SPDX-License-Identifier: Apache-2.0
#include "allocations.h"

#include <algorithm>

#include "launch.h"

namespace warplens {
namespace {

template <class T>
const T* parameters(const CUpti_CallbackData* call) {
    return static_cast<const T*>(call->functionParams);
}

constexpr const char* kSurface = "a surface";

CUdeviceptr address(const void* host) { return reinterpret_cast<CUdeviceptr>(host); }

}  // namespace

const std::vector<CUpti_CallbackId>& Allocations::watched() {
    static const std::vector<CUpti_CallbackId> ids = {
        CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2,
        CUPTI_DRIVER_TRACE_CBID_cuMemAllocPitch_v2,
        CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged,
        CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync,
        CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync_ptsz,
        CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync,
        CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync_ptsz,
        CUPTI_DRIVER_TRACE_CBID_cuMemMap,
        CUPTI_DRIVER_TRACE_CBID_cuMemUnmap,
        CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2,
        CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync,
        CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync_ptsz,
        CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc,
        CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc_v2,
        CUPTI_DRIVER_TRACE_CBID_cuMemAllocHost_v2,
        CUPTI_DRIVER_TRACE_CBID_cuMemFreeHost,
        CUPTI_DRIVER_TRACE_CBID_cuMemHostRegister_v2,
        CUPTI_DRIVER_TRACE_CBID_cuMemHostUnregister,
        CUPTI_DRIVER_TRACE_CBID_cuSurfObjectCreate,
    };
    return ids;
}

void Allocations::add(CUdeviceptr base, std::size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (base && bytes) live_[base] = bytes;
}

void Allocations::remove(CUdeviceptr base) {
    std::lock_guard<std::mutex> lock(mutex_);
    live_.erase(base);
}

std::vector<Allocation> Allocations::live() const {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Allocation> all;
    for (const auto& [base, bytes] : live_) all.push_back({base, bytes});
    return all;
}

std::vector<const char*> Allocations::opaque() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return opaque_;
}

void Allocations::add_opaque(const char* kind) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (std::find(opaque_.begin(), opaque_.end(), kind) == opaque_.end()) opaque_.push_back(kind);
}

void Allocations::follow(CUpti_CallbackId id, const CUpti_CallbackData* call) {
    // what is freed is gone when the call is made, what is allocated is there when it returned
    if (call->callbackSite == CUPTI_API_ENTER) {
        release(id, call);
    } else if (*static_cast<const CUresult*>(call->functionReturnValue) == CUDA_SUCCESS) {
        allocate(id, call);
    }
}

void Allocations::release(CUpti_CallbackId id, const CUpti_CallbackData* call) {
    switch (id) {
        case CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2:
            return remove(parameters<cuMemFree_v2_params>(call)->dptr);
        case CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync:
        case CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync_ptsz:
            // in a graph it is freed when that runs, not now
            if (is_capturing(parameters<cuMemFreeAsync_params>(call)->hStream)) return;
            return remove(parameters<cuMemFreeAsync_params>(call)->dptr);
        case CUPTI_DRIVER_TRACE_CBID_cuMemUnmap:
            return remove(parameters<cuMemUnmap_params>(call)->ptr);
        case CUPTI_DRIVER_TRACE_CBID_cuMemFreeHost:
            return remove(address(parameters<cuMemFreeHost_params>(call)->p));
        case CUPTI_DRIVER_TRACE_CBID_cuMemHostUnregister:
            return remove(address(parameters<cuMemHostUnregister_params>(call)->p));
        default: return;
    }
}

void Allocations::allocate(CUpti_CallbackId id, const CUpti_CallbackData* call) {
    switch (id) {
        case CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2: {
            auto p = parameters<cuMemAlloc_v2_params>(call);
            return add(*p->dptr, p->bytesize);
        }
        case CUPTI_DRIVER_TRACE_CBID_cuMemAllocPitch_v2: {
            auto p = parameters<cuMemAllocPitch_v2_params>(call);
            return add(*p->dptr, *p->pPitch * p->Height);
        }
        case CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged: {
            auto p = parameters<cuMemAllocManaged_params>(call);
            return add(*p->dptr, p->bytesize);
        }
        case CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync:
        case CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync_ptsz: {
            auto p = parameters<cuMemAllocAsync_params>(call);
            // in a graph it is there only while that runs
            if (!is_capturing(p->hStream)) add(*p->dptr, p->bytesize);
            return;
        }
        case CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync:
        case CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync_ptsz: {
            auto p = parameters<cuMemAllocFromPoolAsync_params>(call);
            if (!is_capturing(p->hStream)) add(*p->dptr, p->bytesize);
            return;
        }
        case CUPTI_DRIVER_TRACE_CBID_cuMemMap: {
            auto p = parameters<cuMemMap_params>(call);
            return add(p->ptr, p->size);
        }
        case CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc:
        case CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc_v2: {
            auto p = parameters<cuMemHostAlloc_params>(call);
            return add(address(*p->pp), p->bytesize);
        }
        case CUPTI_DRIVER_TRACE_CBID_cuMemAllocHost_v2: {
            auto p = parameters<cuMemAllocHost_v2_params>(call);
            return add(address(*p->pp), p->bytesize);
        }
        case CUPTI_DRIVER_TRACE_CBID_cuMemHostRegister_v2: {
            auto p = parameters<cuMemHostRegister_v2_params>(call);
            return add(address(p->p), p->bytesize);
        }
        case CUPTI_DRIVER_TRACE_CBID_cuSurfObjectCreate: return add_opaque(kSurface);
        default: return;
    }
}

}  // namespace warplens
