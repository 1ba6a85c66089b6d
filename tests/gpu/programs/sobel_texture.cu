// Edges of an image read through a texture object; the results are bytes.
#include <cstdio>
#include <vector>

__global__ void edges(cudaTextureObject_t image, unsigned char *out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float gx = 0, gy = 0;
    for (int d = -1; d <= 1; ++d) {
        const float weight = d ? 1 : 2;
        gx += weight * (tex2D<float>(image, x + 1, y + d) - tex2D<float>(image, x - 1, y + d));
        gy += weight * (tex2D<float>(image, x + d, y + 1) - tex2D<float>(image, x + d, y - 1));
    }
    out[y * width + x] = static_cast<unsigned char>(fminf(255.0f, 64 * sqrtf(gx * gx + gy * gy)));
}

int main() {
    const int width = 1920, height = 1080;
    std::vector<float> picture(width * height);
    for (int i = 0; i < width * height; ++i) picture[i] = static_cast<float>((i % width / 40 + i / width / 40) % 2);
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaMallocArray(&array, &format, width, height);
    cudaMemcpy2DToArray(array, 0, 0, picture.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc description = {};
    description.addressMode[0] = description.addressMode[1] = cudaAddressModeClamp;
    cudaTextureObject_t image;
    if (cudaCreateTextureObject(&image, &resource, &description, nullptr) != cudaSuccess) return 1;
    unsigned char *out;
    cudaMalloc(&out, width * height);
    for (int i = 0; i < 6; ++i) edges<<<dim3((width + 15) / 16, (height + 15) / 16), dim3(16, 16)>>>(image, out, width, height);
    std::vector<unsigned char> result(width * height);
    if (cudaMemcpy(result.data(), out, result.size(), cudaMemcpyDeviceToHost) != cudaSuccess) return 2;
    long bright = 0;
    for (unsigned char v : result) bright += v > 128;
    std::printf("%ld bright pixels\n", bright);
    return 0;
}
