// A prefix sum in one pass: blocks take tickets from a counter in __device__ memory and wait for the sums of those
// before them; the last block puts the counter back.
#include <cstdio>
#include <vector>

constexpr int BLOCK = 256, MOST = 4096;
__device__ unsigned ticket, finished;
__device__ volatile int inclusive[MOST];
__device__ volatile unsigned ready[MOST];

__global__ void prefix(const int *in, int *out, int count) {
    __shared__ int values[BLOCK];
    __shared__ unsigned me;
    __shared__ int before;
    if (threadIdx.x == 0) me = atomicAdd(&ticket, 1);
    __syncthreads();
    const int i = me * BLOCK + threadIdx.x;
    values[threadIdx.x] = i < count ? in[i] : 0;
    __syncthreads();
    for (int step = 1; step < BLOCK; step *= 2) {
        const int other = threadIdx.x >= step ? values[threadIdx.x - step] : 0;
        __syncthreads();
        values[threadIdx.x] += other;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        before = 0;
        if (me) {
            while (!ready[me - 1]) {
            }
            __threadfence();
            before = inclusive[me - 1];
        }
        inclusive[me] = before + values[BLOCK - 1];
        __threadfence();
        ready[me] = 1;
    }
    __syncthreads();
    if (i < count) out[i] = before + values[threadIdx.x];
    if (threadIdx.x == 0 && atomicAdd(&finished, 1) == gridDim.x - 1) {
        for (unsigned b = 0; b < gridDim.x; ++b) ready[b] = 0;
        ticket = finished = 0;
    }
}

int main() {
    const int count = BLOCK * 2048;
    std::vector<int> host(count);
    for (int i = 0; i < count; ++i) host[i] = i % 7;
    int *in, *out;
    cudaMalloc(&in, count * 4);
    cudaMalloc(&out, count * 4);
    cudaMemcpy(in, host.data(), count * 4, cudaMemcpyHostToDevice);
    for (int i = 0; i < 5; ++i) prefix<<<count / BLOCK, BLOCK>>>(in, out, count);
    int last;
    if (cudaMemcpy(&last, out + count - 1, 4, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    long sum = 0;
    for (int v : host) sum += v;
    std::printf("%d\n", last);
    return last != sum;
}
