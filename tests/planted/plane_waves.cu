// Real part of a field on an nx * ny lattice, stored with y innermost; adds a travelling wave to it.
#include <cmath>
#include <cstdio>
#include <vector>
#define CHECK(call) do { cudaError_t e = (call); if (e) { printf("%s\n", cudaGetErrorString(e)); return 1; } } while (0)

constexpr int NX = 8192, NY = 8192;

// class: memory
__global__ void add_wave(double *__restrict__ sum, const double *__restrict__ field, double kx, double ky)
{
    int ix = blockIdx.x * blockDim.x + threadIdx.x;
    int iy = blockIdx.y * blockDim.y + threadIdx.y;
    if (ix < NX && iy < NY) {
        double here = field[ix * NY + iy];  // expect: uncoalesced-global-read
        sum[iy * NX + ix] = here * kx + ky;
    }
}

int main()
{
    size_t cells = size_t(NX) * NY;
    std::vector<double> f(cells);
    for (size_t i = 0; i < cells; ++i) f[i] = double(i % 1021);
    double *field, *sum;
    CHECK(cudaMalloc(&field, cells * 8));
    CHECK(cudaMalloc(&sum, cells * 8));
    CHECK(cudaMemcpy(field, f.data(), cells * 8, cudaMemcpyHostToDevice));
    dim3 threads(128, 2), blocks(NX / 128, NY / 2);
    for (int step = 0; step < 4; ++step) add_wave<<<blocks, threads>>>(sum, field, 0.5, 2.0);
    std::vector<double> g(cells);
    CHECK(cudaMemcpy(g.data(), sum, cells * 8, cudaMemcpyDeviceToHost));
    for (int x = 0; x < NX; x += 37)
        for (int y = 0; y < NY; y += 41)
            if (fabs(g[size_t(y) * NX + x] - (f[size_t(x) * NY + y] * 0.5 + 2.0)) > 1e-9) return printf("wrong\n"), 1;
    printf("ok\n");
}
