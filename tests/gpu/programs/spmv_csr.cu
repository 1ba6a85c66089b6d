// Sparse matrix times vector in double precision, one warp per row of a band matrix.
#include <cstdio>
#include <vector>

__global__ void multiply(const int *row_start, const int *column, const double *value, const double *x, double *y, int rows) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    double sum = 0;
    for (int k = row_start[row] + lane; k < row_start[row + 1]; k += 32) sum += value[k] * x[column[k]];
    for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (lane == 0) y[row] = sum;
}

int main() {
    const int rows = 100000;
    std::vector<int> start(1, 0), column;
    std::vector<double> value, x(rows, 1.0), y(rows);
    for (int r = 0; r < rows; ++r) {
        for (int c = r - 20; c <= r + 20; c += 2)
            if (c >= 0 && c < rows) {
                column.push_back(c);
                value.push_back(c == r ? 40.0 : -1.0 / (1 + (c > r ? c - r : r - c)));
            }
        start.push_back(static_cast<int>(column.size()));
    }
    int *s, *c;
    double *v, *in, *out;
    cudaMalloc(&s, start.size() * sizeof(int));
    cudaMalloc(&c, column.size() * sizeof(int));
    cudaMalloc(&v, value.size() * sizeof(double));
    cudaMalloc(&in, rows * sizeof(double));
    cudaMalloc(&out, rows * sizeof(double));
    cudaMemcpy(s, start.data(), start.size() * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(c, column.data(), column.size() * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(v, value.data(), value.size() * sizeof(double), cudaMemcpyHostToDevice);
    cudaMemcpy(in, x.data(), rows * sizeof(double), cudaMemcpyHostToDevice);
    for (int i = 0; i < 4; ++i) multiply<<<(rows * 32 + 127) / 128, 128>>>(s, c, v, in, out, rows);
    if (cudaMemcpy(y.data(), out, rows * sizeof(double), cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%.12f %.12f\n", y[0], y[rows / 2]);
    return 0;
}
