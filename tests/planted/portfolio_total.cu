// Total value of a book of positions.
#include <cmath>
#include <cstdio>
#include <vector>

// class: memory
__global__ void book_value(const double *price, const int *quantity, double *total, int positions)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < positions) atomicAdd(total, price[p] * quantity[p]);  // expect: global-atomic-contention
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
        book_value<<<positions / 256, 256>>>(d_price, d_quantity, d_total, positions);
    }
    cudaMemcpy(&got, d_total, sizeof got, cudaMemcpyDeviceToHost);
    bool right = std::fabs(got - want) < 1e-6 * std::fabs(want);
    puts(right ? "ok" : "wrong");
    return !right;
}
