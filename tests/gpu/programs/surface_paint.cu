// The kernel's only result is a surface, which no address leads to.
#include <cstdio>
#include <vector>

__global__ void paint(cudaSurfaceObject_t canvas, int width, int height, float phase) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) surf2Dwrite(sinf(0.02f * x + phase) * cosf(0.03f * y), canvas, x * 4, y);
}

int main() {
    const int width = 1024, height = 1024;
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaMallocArray(&array, &format, width, height, cudaArraySurfaceLoadStore);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaSurfaceObject_t canvas;
    if (cudaCreateSurfaceObject(&canvas, &resource) != cudaSuccess) return 1;
    for (int frame = 0; frame < 6; ++frame) paint<<<dim3(width / 16, height / 16), dim3(16, 16)>>>(canvas, width, height, 0.1f * frame);
    std::vector<float> picture(width * height);
    if (cudaMemcpy2DFromArray(picture.data(), width * 4, array, 0, 0, width * 4, height, cudaMemcpyDeviceToHost) != cudaSuccess) return 2;
    std::printf("%.4f\n", picture[12345]);
    return 0;
}
