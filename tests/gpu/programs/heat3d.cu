// Heat in a cube, seven-point stencil in double, two buffers in turn.
#include <cstdio>
#include <utility>
#include <vector>

__global__ void step(const double *__restrict__ now, double *__restrict__ then, int n, double rate) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (x >= n || y >= n) return;
    const int i = (z * n + y) * n + x, plane = n * n;
    if (x == 0 || y == 0 || z == 0 || x == n - 1 || y == n - 1 || z == n - 1) {
        then[i] = now[i];
        return;
    }
    then[i] = now[i] + rate * (now[i - 1] + now[i + 1] + now[i - n] + now[i + n] + now[i - plane] + now[i + plane] - 6 * now[i]);
}

int main() {
    const int n = 160;
    std::vector<double> cube(n * n * n, 20.0);
    for (int i = 0; i < n * n; ++i) cube[i] = 100.0;
    double *a, *b;
    cudaMalloc(&a, cube.size() * sizeof(double));
    cudaMalloc(&b, cube.size() * sizeof(double));
    cudaMemcpy(a, cube.data(), cube.size() * sizeof(double), cudaMemcpyHostToDevice);
    for (int t = 0; t < 20; ++t, std::swap(a, b)) step<<<dim3(n / 32, n / 4, n), dim3(32, 4)>>>(a, b, n, 0.1);
    if (cudaMemcpy(cube.data(), a, cube.size() * sizeof(double), cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%.6f\n", cube[(3 * n + n / 2) * n + n / 2]);
    return 0;
}
