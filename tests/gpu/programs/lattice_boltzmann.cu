// Flow past nothing in particular: D2Q9 lattice Boltzmann, nine planes behind pointers in a structure.
#include <cstdio>
#include <utility>
#include <vector>

struct Lattice {
    float *plane[9];
    int width, height;
};

__constant__ int ex[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, ey[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
__constant__ float weight[9] = {4 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f};

__global__ void stream_and_collide(Lattice from, Lattice to, float omega) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= from.width) return;
    float f[9], density = 0, ux = 0, uy = 0;
    for (int k = 0; k < 9; ++k) {
        const int sx = (x - ex[k] + from.width) % from.width, sy = (y - ey[k] + from.height) % from.height;
        f[k] = from.plane[k][sy * from.width + sx];
        density += f[k];
        ux += f[k] * ex[k];
        uy += f[k] * ey[k];
    }
    ux /= density;
    uy /= density;
    for (int k = 0; k < 9; ++k) {
        const float along = 3 * (ex[k] * ux + ey[k] * uy);
        const float rest = weight[k] * density * (1 + along + 0.5f * along * along - 1.5f * (ux * ux + uy * uy));
        to.plane[k][y * to.width + x] = f[k] + omega * (rest - f[k]);
    }
}

int main() {
    const int width = 1024, height = 512;
    Lattice a = {{}, width, height}, b = a;
    std::vector<float> host(width * height);
    for (int k = 0; k < 9; ++k) {
        for (int i = 0; i < width * height; ++i) host[i] = 0.1f + 0.01f * static_cast<float>((i * 31 + k * 17) % 101) / 101;
        for (Lattice *l : {&a, &b}) {
            cudaMalloc(&l->plane[k], host.size() * 4);
            cudaMemcpy(l->plane[k], host.data(), host.size() * 4, cudaMemcpyHostToDevice);
        }
    }
    for (int step = 0; step < 6; ++step, std::swap(a, b)) stream_and_collide<<<dim3(width / 128, height), 128>>>(a, b, 1.2f);
    if (cudaMemcpy(host.data(), a.plane[1], host.size() * 4, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%.5f\n", host[1000]);
    return 0;
}
