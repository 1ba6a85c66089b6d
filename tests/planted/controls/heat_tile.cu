// One explicit step of the heat equation in two dimensions, with a shared tile and its halo.
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#define BX 64
#define BY 8

// class: memory
__global__ void heat(const float *__restrict__ u, float *__restrict__ next, int nx, int ny, float k)
{
    __shared__ float s[BY + 2][BX + 2];
    const int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;
    const int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    s[ty][tx] = u[y * nx + x];
    if (threadIdx.y == 0) s[0][tx] = y > 0 ? u[(y - 1) * nx + x] : 0.f;
    if (threadIdx.y == BY - 1) s[BY + 1][tx] = y < ny - 1 ? u[(y + 1) * nx + x] : 0.f;
    if (threadIdx.x == 0) s[ty][0] = x > 0 ? u[y * nx + x - 1] : 0.f;
    if (threadIdx.x == BX - 1) s[ty][BX + 1] = x < nx - 1 ? u[y * nx + x + 1] : 0.f;
    __syncthreads();
    next[y * nx + x] = s[ty][tx] + k * (s[ty - 1][tx] + s[ty + 1][tx] + s[ty][tx - 1] + s[ty][tx + 1] - 4.f * s[ty][tx]);
}

int main()
{
    const int nx = 8192, ny = 8192;
    std::vector<float> u(size_t(nx) * ny), v(u.size());
    for (size_t i = 0; i < u.size(); ++i) u[i] = float(i % 251);
    float *a, *b;
    cudaMalloc(&a, u.size() * 4), cudaMalloc(&b, u.size() * 4);
    cudaMemcpy(a, u.data(), u.size() * 4, cudaMemcpyHostToDevice);
    heat<<<dim3(nx / BX, ny / BY), dim3(BX, BY)>>>(a, b, nx, ny, 0.1f);
    cudaMemcpy(v.data(), b, u.size() * 4, cudaMemcpyDeviceToHost);
    for (int y = 1; y < ny - 1; y += 73)
        for (int x = 1; x < nx - 1; x += 71) {
            size_t i = size_t(y) * nx + x;
            float want = u[i] + 0.1f * (u[i - nx] + u[i + nx] + u[i - 1] + u[i + 1] - 4 * u[i]);
            if (std::fabs(want - v[i]) > 1e-2f) return puts("wrong"), 1;
        }
    puts("ok");
}
