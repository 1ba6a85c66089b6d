// SPDX-License-Identifier: Apache-2.0
#include "driver.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace warplens {

const char* name_of(CUresult status) {
    const char* name = nullptr;
    return cuGetErrorName(status, &name) == CUDA_SUCCESS && name ? name : "CUDA_ERROR_UNKNOWN";
}

DriverError::DriverError(CUresult status, const std::string& what)
    : std::runtime_error(what + " failed with " + name_of(status)), status(status) {}

bool is_sticky(CUresult status) {
    switch (status) {
        case CUDA_ERROR_ILLEGAL_ADDRESS:
        case CUDA_ERROR_LAUNCH_TIMEOUT:
        case CUDA_ERROR_ASSERT:
        case CUDA_ERROR_HARDWARE_STACK_ERROR:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION:
        case CUDA_ERROR_MISALIGNED_ADDRESS:
        case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        case CUDA_ERROR_INVALID_PC:
        case CUDA_ERROR_LAUNCH_FAILED:
        case CUDA_ERROR_ECC_UNCORRECTABLE:
        case CUDA_ERROR_EXTERNAL_DEVICE:
#if CUDA_VERSION >= 12080
        case CUDA_ERROR_CONTAINED:
#endif
        case CUDA_ERROR_UNKNOWN: return true;
        default: return false;
    }
}

static std::atomic<bool> hangs{false};

void give_back(CUdeviceptr memory) {
    if (memory && !hangs) cuMemFree(memory);
}
void give_back_host(void* memory) {
    if (memory && !hangs) cuMemFreeHost(memory);
}

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void wait(CUstream stream, double seconds) {
    const double started = now();
    for (;;) {
        const CUresult status = cuStreamQuery(stream);
        if (status == CUDA_SUCCESS) return;
        if (status != CUDA_ERROR_NOT_READY) throw DriverError(status, "the launch");
        const double elapsed = now() - started;
        if (elapsed > seconds) {
            hangs = true;
            throw Hung();
        }
        // short kernels are waited for hot, so that the next launch is not late; long ones are not worth a core
        if (elapsed > 0.002) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
}

void* driver_entry(const char* name, int version) {
    int driver = 0;
    void* entry = nullptr;
    // an older driver would hand out its own version of the function, which takes other arguments
    if (cuDriverGetVersion(&driver) != CUDA_SUCCESS || driver < version) return nullptr;
    const CUresult status = cuGetProcAddress(name, &entry, version, CU_GET_PROC_ADDRESS_DEFAULT, nullptr);
    return status == CUDA_SUCCESS ? entry : nullptr;
}

}  // namespace warplens
