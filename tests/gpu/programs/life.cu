// The game of life on bytes, wrapping at the edges; the world never comes to rest.
#include <cstdio>
#include <utility>
#include <vector>

__global__ void generation(const unsigned char *now, unsigned char *next, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int alive = 0;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx) alive += now[(y + dy + height) % height * width + (x + dx + width) % width];
    const int me = now[y * width + x];
    next[y * width + x] = alive == 3 || (me && alive == 4);
}

int main() {
    const int width = 2048, height = 1024;
    std::vector<unsigned char> world(width * height);
    unsigned state = 99;
    for (unsigned char &cell : world) cell = (state = state * 1664525u + 1013904223u) >> 31;
    unsigned char *a, *b;
    cudaMalloc(&a, world.size());
    cudaMalloc(&b, world.size());
    cudaMemcpy(a, world.data(), world.size(), cudaMemcpyHostToDevice);
    for (int t = 0; t < 10; ++t, std::swap(a, b)) generation<<<dim3(width / 32, height / 8), dim3(32, 8)>>>(a, b, width, height);
    if (cudaMemcpy(world.data(), a, world.size(), cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    long alive = 0;
    for (unsigned char cell : world) alive += cell;
    std::printf("%ld alive\n", alive);
    return 0;
}
