// Loads a cubin with the driver API and launches with packed arguments. argv[1]: the cubin of affine.cu's kernel.
#include <cuda.h>
#include <cstdio>
#include <vector>

extern "C" __global__ void shift(float* x, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += by;
}

int main(int, char** argv) {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    cuInit(0);
    cuDeviceGet(&device, 0);
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    if (cuModuleLoad(&module, argv[1]) != CUDA_SUCCESS) return 1;
    if (cuModuleGetFunction(&function, module, "shift") != CUDA_SUCCESS) return 2;
    struct { CUdeviceptr x; int n; float by; } packed{0, 1 << 20, 1.5f};
    cuMemAlloc(&packed.x, size_t(packed.n) * 4);
    cuMemsetD32(packed.x, 0, packed.n);
    size_t size = sizeof packed;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    for (int i = 0; i < 3; ++i)
        if (cuLaunchKernel(function, packed.n / 256, 1, 1, 256, 1, 1, 0, 0, nullptr, extra) != CUDA_SUCCESS) return 3;
    if (cuCtxSynchronize() != CUDA_SUCCESS) return 4;
    std::printf("driver ok\n");
    return 0;
}
