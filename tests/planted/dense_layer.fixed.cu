// Forward pass of a fully connected layer without bias: y = x * w.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

// class: memory
__global__ void dense_forward(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y,
                              int batch, int in_features, int out_features)
{
    __shared__ float xs[64][17], ws[16][64];
    int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
    int t = threadIdx.y * 16 + threadIdx.x;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < in_features; k0 += 16) {
        for (int e = t; e < 64 * 16; e += 256) xs[e / 16][e % 16] = x[(row0 + e / 16) * in_features + k0 + e % 16];
        for (int e = t; e < 16 * 64; e += 256) ws[e / 64][e % 64] = w[(k0 + e / 64) * out_features + col0 + e % 64];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            float a[4], b[4];
            for (int i = 0; i < 4; ++i) a[i] = xs[threadIdx.y + 16 * i][k], b[i] = ws[k][threadIdx.x + 16 * i];
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            y[(row0 + threadIdx.y + 16 * i) * out_features + col0 + threadIdx.x + 16 * j] = acc[i][j];
}

int main()
{
    int batch = 2048, in_features = 2048, out_features = 2048;
    std::vector<float> x(batch * in_features), w(in_features * out_features), y(batch * out_features);
    for (size_t i = 0; i < x.size(); ++i) x[i] = float(i % 13) - 6;
    for (size_t i = 0; i < w.size(); ++i) w[i] = float(i % 7) - 3;
    float *dx, *dw, *dy;
    cudaMalloc(&dx, x.size() * 4), cudaMalloc(&dw, w.size() * 4), cudaMalloc(&dy, y.size() * 4);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dw, w.data(), w.size() * 4, cudaMemcpyHostToDevice);
    dim3 block(16, 16), grid(out_features / 64, batch / 64);
    for (int pass = 0; pass < 3; ++pass)
        dense_forward<<<grid, block>>>(dx, dw, dy, batch, in_features, out_features);
    cudaMemcpy(y.data(), dy, y.size() * 4, cudaMemcpyDeviceToHost);
    for (int s = 0; s < batch; s += 301)
        for (int f = 0; f < out_features; f += 199) {
            double want = 0;
            for (int k = 0; k < in_features; ++k) want += double(x[s * in_features + k]) * w[k * out_features + f];
            if (fabs(want - y[s * out_features + f]) > 0.5) return printf("%d %d\n", s, f), 1;
        }
    puts("ok");
}
