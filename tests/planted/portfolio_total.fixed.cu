// Total value of a book of positions.
#include <cmath>
#include <cstdio>
#include <vector>

// class: memory
__global__ void book_value(const double *price, const int *quantity, double *total, int positions)
{
    __shared__ double parts[8];
    double mine = 0;
    for (int p = blockIdx.x * blockDim.x + threadIdx.x; p < positions; p += gridDim.x * blockDim.x)
        mine += price[p] * quantity[p];
    for (int d = 16; d > 0; d >>= 1) mine += __shfl_down_sync(0xffffffffu, mine, d);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; ++w) mine += parts[w];
        atomicAdd(total, mine);
    }
}

int main()
{
    const int positions = 32 << 20;
    std::vector<double> price(positions);
    std::vector<int> quantity(positions);
    double want = 0;
    for (int i = 0; i < positions; ++i) {
        price[i] = 0.25 * (i % 400), quantity[i] = i % 9 - 2;
        want += price[i] * quantity[i];
    }
    double *d_price, *d_total, got = 0;
    int *d_quantity;
    cudaMalloc(&d_price, positions * sizeof(double));
    cudaMalloc(&d_quantity, positions * sizeof(int));
    cudaMalloc(&d_total, sizeof(double));
    cudaMemcpy(d_price, price.data(), positions * sizeof(double), cudaMemcpyHostToDevice);
    cudaMemcpy(d_quantity, quantity.data(), positions * sizeof(int), cudaMemcpyHostToDevice);
    for (int i = 0; i < 2; ++i) {
        cudaMemset(d_total, 0, sizeof(double));
        book_value<<<1056, 256>>>(d_price, d_quantity, d_total, positions);
    }
    cudaMemcpy(&got, d_total, sizeof got, cudaMemcpyDeviceToHost);
    bool right = std::fabs(got - want) < 1e-6 * std::fabs(want);
    puts(right ? "ok" : "wrong");
    return !right;
}
