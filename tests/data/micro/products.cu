// A product of 16-bit tiles on the ordinary pipes, and one of floats, which is left alone.
#include <cuda_fp16.h>

__global__ void half_tiles(float *__restrict__ out, const __half *__restrict__ in, int rounds, int pitch)
{
    __shared__ __half a[32][64], b[32][64];
    int lane = threadIdx.y * 16 + threadIdx.x, row = threadIdx.y * 4, column = threadIdx.x * 4;
    float sum[4][4] = {};
    for (int r = 0; r < rounds; ++r) {
        for (int i = lane; i < 2048; i += 256) {
            a[i / 64][i % 64] = in[(r * 32 + i / 64) * pitch + blockIdx.y * 64 + i % 64];
            b[i / 64][i % 64] = in[(r * 32 + i / 64) * pitch + blockIdx.x * 64 + i % 64];
        }
        __syncthreads();
        for (int k = 0; k < 32; ++k)
            for (int y = 0; y < 4; ++y)
                for (int x = 0; x < 4; ++x)
                    sum[y][x] += __half2float(a[k][row + y]) * __half2float(b[k][column + x]);  // expect: tensor-cores-unused
        __syncthreads();
    }
    for (int y = 0; y < 4; ++y)
        for (int x = 0; x < 4; ++x) out[(blockIdx.y * 64 + row + y) * pitch + blockIdx.x * 64 + column + x] = sum[y][x];
}

__global__ void float_tiles(float *__restrict__ out, const float *__restrict__ in, int rounds, int pitch)
{
    __shared__ float a[32][64], b[32][64];
    int lane = threadIdx.y * 16 + threadIdx.x, row = threadIdx.y * 4, column = threadIdx.x;
    float sum[4][4] = {};
    for (int r = 0; r < rounds; ++r) {
        for (int i = lane; i < 2048; i += 256) {
            a[i / 64][i % 64] = in[(r * 32 + i / 64) * pitch + blockIdx.y * 64 + i % 64];
            b[i / 64][i % 64] = in[(r * 32 + i / 64) * pitch + blockIdx.x * 64 + i % 64];
        }
        __syncthreads();
        for (int k = 0; k < 32; ++k)
            for (int y = 0; y < 4; ++y)
                for (int x = 0; x < 4; ++x) sum[y][x] += a[k][row + y] * b[k][column + 16 * x];
        __syncthreads();
    }
    for (int y = 0; y < 4; ++y)
        for (int x = 0; x < 4; ++x) out[(blockIdx.y * 64 + row + y) * pitch + blockIdx.x * 64 + column + 16 * x] = sum[y][x];
}

void launch(float *out, const __half *halves, const float *floats, int rounds, int pitch)
{
    half_tiles<<<dim3(64, 64), dim3(16, 16)>>>(out, halves, rounds, pitch);
    float_tiles<<<dim3(64, 64), dim3(16, 16)>>>(out, floats, rounds, pitch);
}
