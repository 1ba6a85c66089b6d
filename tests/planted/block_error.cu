// Squared error between two predictions, one partial sum a block.
#include <cmath>
#include <cstdio>
#include <cstdlib>

// class: memory
__global__ void squared_error(const float *a, const float *b, float *partial, int n)
{
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    while (i < n) {
        float d = a[i] - b[i];
        atomicAdd(&sum, d * d);  // expect: shared-atomic-contention
        i += blockDim.x * gridDim.x;
    }
    __syncthreads();
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

int main(void)
{
    int n = 1 << 26, blocks = 1056;
    float *a = (float *)malloc(4l * n), *b = (float *)malloc(4l * n), *partial = (float *)malloc(4l * blocks);
    double want = 0, got = 0;
    for (int i = 0; i < n; i++) {
        a[i] = (i % 8) * 0.125f, b[i] = (i % 5) * 0.25f;
        want += double(a[i] - b[i]) * (a[i] - b[i]);
    }
    float *da, *db, *dp;
    cudaMalloc(&da, 4l * n), cudaMalloc(&db, 4l * n), cudaMalloc(&dp, 4l * blocks);
    cudaMemcpy(da, a, 4l * n, cudaMemcpyHostToDevice);
    cudaMemcpy(db, b, 4l * n, cudaMemcpyHostToDevice);
    for (int i = 0; i < 2; i++) squared_error<<<blocks, 512>>>(da, db, dp, n);
    cudaMemcpy(partial, dp, 4l * blocks, cudaMemcpyDeviceToHost);
    for (int i = 0; i < blocks; i++) got += partial[i];
    if (fabs(got - want) > 1e-3 * want) return printf("%f %f\n", got, want), 1;
    return puts("ok"), 0;
}
