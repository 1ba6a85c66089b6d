// SPDX-License-Identifier: Apache-2.0
#include "calls.h"

#include <algorithm>

namespace warplens {
namespace {

bool says_what_runs(CUlaunchAttributeID id) {
    const auto& ids = attributes_of_kernels();
    return std::find(ids.begin(), ids.end(), id) != ids.end();
}

template <class Parameters>
Launch plain(const CUpti_CallbackData* call) {
    const auto* p = static_cast<const Parameters*>(call->functionParams);
    Launch launch;
    launch.function = p->f;
    const unsigned grid[3] = {p->gridDimX, p->gridDimY, p->gridDimZ};
    const unsigned block[3] = {p->blockDimX, p->blockDimY, p->blockDimZ};
    std::copy(grid, grid + 3, launch.grid);
    std::copy(block, block + 3, launch.block);
    launch.shared = p->sharedMemBytes;
    launch.stream = p->hStream;
    launch.parameters = p->kernelParams;
    return launch;
}

Launch extended(const CUpti_CallbackData* call) {
    const auto* p = static_cast<const cuLaunchKernelEx_params*>(call->functionParams);
    const CUlaunchConfig& c = *p->config;
    Launch launch;
    launch.function = p->f;
    const unsigned grid[3] = {c.gridDimX, c.gridDimY, c.gridDimZ};
    const unsigned block[3] = {c.blockDimX, c.blockDimY, c.blockDimZ};
    std::copy(grid, grid + 3, launch.grid);
    std::copy(block, block + 3, launch.block);
    launch.shared = c.sharedMemBytes;
    launch.stream = c.hStream;
    launch.parameters = p->kernelParams;
    launch.extra = p->extra;
    for (unsigned i = 0; i < c.numAttrs; ++i) {
        if (!says_what_runs(c.attrs[i].id)) continue;
        launch.attributes.push_back(c.attrs[i]);
        if (c.attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) launch.cooperative = c.attrs[i].value.cooperative;
    }
    return launch;
}

Launch cooperative(const CUpti_CallbackData* call) {
    Launch launch = plain<cuLaunchCooperativeKernel_params>(call);
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    launch.attributes.push_back(attribute);
    launch.cooperative = true;
    return launch;
}

template <class Parameters>
void replace(const CUpti_CallbackData* call, const Launch& other) {
    auto* p = static_cast<Parameters*>(const_cast<void*>(call->functionParams));
    p->f = other.function;
    p->gridDimX = other.grid[0], p->gridDimY = other.grid[1], p->gridDimZ = other.grid[2];
    p->blockDimX = other.block[0], p->blockDimY = other.block[1], p->blockDimZ = other.block[2];
    p->sharedMemBytes = other.shared;
}

}  // namespace

const std::vector<CUpti_CallbackId>& launch_calls() {
    static const std::vector<CUpti_CallbackId> ids = {
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    };
    return ids;
}

bool is_launch(CUpti_CallbackId id) {
    const auto& ids = launch_calls();
    return std::find(ids.begin(), ids.end(), id) != ids.end();
}

Launch launch_of(CUpti_CallbackId id, const CUpti_CallbackData* call) {
    switch (id) {
        case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
        case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz: return extended(call);
        case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel:
        case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz: return cooperative(call);
        default: {
            Launch launch = plain<cuLaunchKernel_params>(call);
            launch.extra = static_cast<const cuLaunchKernel_params*>(call->functionParams)->extra;
            return launch;
        }
    }
}

void substitute(CUpti_CallbackId id, const CUpti_CallbackData* call, const Launch& other) {
    switch (id) {
        case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
        case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz: {
            auto* p = static_cast<cuLaunchKernelEx_params*>(const_cast<void*>(call->functionParams));
            // the configuration is the program's own memory: it gets a changed copy, which outlives the call
            thread_local CUlaunchConfig config;
            config = *p->config;
            config.gridDimX = other.grid[0], config.gridDimY = other.grid[1], config.gridDimZ = other.grid[2];
            config.blockDimX = other.block[0], config.blockDimY = other.block[1], config.blockDimZ = other.block[2];
            config.sharedMemBytes = other.shared;
            p->config = &config;
            p->f = other.function;
            return;
        }
        case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel:
        case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz:
            return replace<cuLaunchCooperativeKernel_params>(call, other);
        default: return replace<cuLaunchKernel_params>(call, other);
    }
}

}  // namespace warplens
