// Forward pass of a fully connected layer without bias: y = x * w.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

// class: memory
__global__ void dense_forward(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y,
                              int batch, int in_features, int out_features)
{
    int sample = blockIdx.y * blockDim.y + threadIdx.y;
    int feature = blockIdx.x * blockDim.x + threadIdx.x;
    if (sample < batch && feature < out_features) {
        float acc = 0.0f;
        for (int k = 0; k < in_features; ++k)
            acc += x[sample * in_features + k] * w[k * out_features + feature];  // expect: missing-cache-reuse
        y[sample * out_features + feature] = acc;
    }
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
    dim3 block(32, 8), grid(out_features / 32, batch / 8);
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
