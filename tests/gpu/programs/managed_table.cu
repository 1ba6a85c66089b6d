// Managed memory, memory from a pool, and a table of pointers to single rows.
#include <cstdio>

__global__ void rows(float** table, const int* order, int count, int length) {
    for (int i = threadIdx.x; i < length; i += blockDim.x) {
        float* row = table[order[blockIdx.x]];
        row[i] = row[i] * 3.0f + float(blockIdx.x);
    }
}

int main() {
    const int count = 64, length = 4096;
    float** table;
    int* order;
    cudaMallocManaged(&table, count * sizeof(float*));
    cudaMallocManaged(&order, count * sizeof(int));
    for (int i = 0; i < count; ++i) {
        cudaMallocAsync(&table[i], length * 4, 0);
        cudaMemsetAsync(table[i], 0, length * 4, 0);
        order[i] = (i * 37) % count;
    }
    cudaStreamSynchronize(0);
    for (int i = 0; i < 3; ++i) rows<<<count, 128>>>(table, order, count, length);
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    std::printf("table ok\n");
    return 0;
}
