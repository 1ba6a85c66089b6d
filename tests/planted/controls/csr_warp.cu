// Sparse matrix times vector, a warp a row.
#include <cmath>
#include <cstdio>
#include <vector>

// class: memory
__global__ void csr_multiply(const int *__restrict__ row_start, const int *__restrict__ column,
                             const float *__restrict__ value, const float *__restrict__ x, float *__restrict__ y, int rows)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
    if (row >= rows) return;
    float sum = 0;
    for (int j = row_start[row] + lane; j < row_start[row + 1]; j += 32) sum += value[j] * x[column[j]];
    for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(~0u, sum, d);
    if (lane == 0) y[row] = sum;
}

int main()
{
    const int rows = 1 << 19, each = 96;
    std::vector<int> start(rows + 1), column(size_t(rows) * each);
    std::vector<float> value(column.size(), 0.5f), x(rows, 2.0f), y(rows);
    for (int r = 0; r <= rows; ++r) start[r] = r * each;
    for (size_t i = 0; i < column.size(); ++i) column[i] = int((i * 40503u) % rows);
    int *ds, *dc;
    float *dv, *dx, *dy;
    cudaMalloc(&ds, start.size() * 4), cudaMalloc(&dc, column.size() * 4), cudaMalloc(&dv, value.size() * 4);
    cudaMalloc(&dx, x.size() * 4), cudaMalloc(&dy, y.size() * 4);
    cudaMemcpy(ds, start.data(), start.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dc, column.data(), column.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dv, value.data(), value.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    csr_multiply<<<rows / 8, 256>>>(ds, dc, dv, dx, dy, rows);
    cudaMemcpy(y.data(), dy, y.size() * 4, cudaMemcpyDeviceToHost);
    for (float v : y)
        if (std::fabs(v - each) > 1e-2f) return puts("wrong"), 1;
    puts("ok");
}
