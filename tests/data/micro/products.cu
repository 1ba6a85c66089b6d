// A product of 16-bit tiles on the ordinary pipes, and one of floats, which is left alone.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__global__ void half_tiles(float *__restrict__ out, const __half *__restrict__ in, int rounds, int pitch)
{
    __shared__ __half a[32][64], b[32][64];
    int lane = threadIdx.y * 16 + threadIdx.x, row = threadIdx.y * 4, column = threadIdx.x * 4;
    float sum[4][4] = {};
    for (int r = 0; r < rounds; ++r) {
        for (int i = lane; i < 2048; i += 256) {
            a[i / 64][i % 64] = in[(r * 32 + i / 64) * pitch + blockIdx.y * 64 + i % 64];  // hint: unoverlapped-copy, expect: scalar-access
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
            a[i / 64][i % 64] = in[(r * 32 + i / 64) * pitch + blockIdx.y * 64 + i % 64];  // hint: unoverlapped-copy
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

// Values are widened into registers first, and multiplied on a line that names no array.
__device__ void stage(const __nv_bfloat16 *from, __nv_bfloat16 (*tile)[64], int pitch)
{
    for (int i = threadIdx.x; i < 32 * 64; i += 256) tile[i / 64][i % 64] = from[size_t(i / 64) * pitch + i % 64];
}

__global__ void __launch_bounds__(256) bfloat_tiles(float *__restrict__ out, const __nv_bfloat16 *__restrict__ left,
                                                    const __nv_bfloat16 *__restrict__ right, int depth, int pitch)
{
    __shared__ __nv_bfloat16 a[32][64], b[32][64];
    int column = threadIdx.x % 16, row = threadIdx.x / 16;
    float sum[4][4] = {};
    for (int k0 = 0; k0 < depth; k0 += 32) {
        stage(left + size_t(k0) * pitch + blockIdx.y * 64, a, pitch);  // hint: unoverlapped-copy, expect: scalar-access
        stage(right + size_t(k0) * pitch + blockIdx.x * 64, b, pitch);
        __syncthreads();
        for (int k = 0; k < 32; ++k) {
            float x[4], y[4];
            for (int i = 0; i < 4; ++i) x[i] = __bfloat162float(a[k][row + 16 * i]);
            for (int j = 0; j < 4; ++j) y[j] = __bfloat162float(b[k][column + 16 * j]);
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j)
                    sum[i][j] = fmaf(x[i], y[j], sum[i][j]);  // expect: tensor-cores-unused
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            out[size_t(blockIdx.y * 64 + row + 16 * i) * pitch + blockIdx.x * 64 + column + 16 * j] = sum[i][j];
}

// A matrix times one vector: every value is used once, and memory bounds it.
__global__ void times_vector(float *__restrict__ out, const __half2 *__restrict__ matrix, const __half2 *__restrict__ x, int depth)
{
    int row = blockIdx.x * 8 + threadIdx.x / 32;
    float sum = 0.0f;
    for (int k = threadIdx.x % 32; k < depth; k += 32) {
        float2 a = __half22float2(matrix[size_t(row) * depth + k]), b = __half22float2(x[k]);
        sum += a.x * b.x + a.y * b.y;
    }
    for (int m = 16; m; m >>= 1) sum += __shfl_xor_sync(~0u, sum, m);
    if (threadIdx.x % 32 == 0) out[row] = sum;
}

// The tiles are widened on their way into shared memory.
template <bool scaled>
__device__ __forceinline__ void widen(const __half2 *from, float (*tile)[64], int pitch, float scale)
{
    for (int n = 0; n < 2; ++n) {
        const int i = threadIdx.x + 256 * n;
        const float2 two = __half22float2(from[size_t(i / 32) * pitch + i % 32]);
        tile[i / 32][i % 32] = scaled ? two.x * scale : two.x;
        tile[i / 32][32 + i % 32] = scaled ? two.y * scale : two.y;
    }
}

__global__ void __launch_bounds__(256) widened_tiles(float *__restrict__ out, const __half2 *__restrict__ left,
                                                     const __half2 *__restrict__ right, int depth, int pitch)
{
    __shared__ float a[16][64], b[16][64];
    const int column = threadIdx.x % 16, row = threadIdx.x / 16;
    float sum[4][4] = {};
    for (int k0 = 0; k0 < depth; k0 += 16) {
        widen<false>(left + size_t(k0) * pitch + blockIdx.y * 32, a, pitch, 1.0f);  // hint: unoverlapped-copy
        widen<false>(right + size_t(k0) * pitch + blockIdx.x * 32, b, pitch, 1.0f);
        __syncthreads();
        for (int k = 0; k < 16; ++k) {
            const float4 y = *reinterpret_cast<const float4 *>(&b[k][4 * column]);
            const float4 x = *reinterpret_cast<const float4 *>(&a[k][4 * row]);
            const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sum[i][j] = fmaf(xs[i], ys[j], sum[i][j]);  // expect: tensor-cores-unused
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        *reinterpret_cast<float4 *>(&out[size_t(blockIdx.y * 64 + 4 * row + i) * pitch + blockIdx.x * 64 + 4 * column]) =
            make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
}

// As above, but what is multiplied are no 16-bit values any more.
__global__ void __launch_bounds__(256) scaled_tiles(float *__restrict__ out, const __half2 *__restrict__ left,
                                                    const __half2 *__restrict__ right, float scale, int depth, int pitch)
{
    __shared__ float a[16][64], b[16][64];
    const int column = threadIdx.x % 16, row = threadIdx.x / 16;
    float sum[4][4] = {};
    for (int k0 = 0; k0 < depth; k0 += 16) {
        widen<true>(left + size_t(k0) * pitch + blockIdx.y * 32, a, pitch, scale);  // hint: unoverlapped-copy
        widen<false>(right + size_t(k0) * pitch + blockIdx.x * 32, b, pitch, 1.0f);
        __syncthreads();
        for (int k = 0; k < 16; ++k) {
            const float4 y = *reinterpret_cast<const float4 *>(&b[k][4 * column]);
            const float4 x = *reinterpret_cast<const float4 *>(&a[k][4 * row]);
            const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sum[i][j] = fmaf(xs[i], ys[j], sum[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        *reinterpret_cast<float4 *>(&out[size_t(blockIdx.y * 64 + 4 * row + i) * pitch + blockIdx.x * 64 + 4 * column]) =
            make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
}

void launch_staged(float *out, const __half2 *halves, float scale, int depth, int pitch)
{
    widened_tiles<<<dim3(64, 64), 256>>>(out, halves, halves, depth, pitch);
    scaled_tiles<<<dim3(64, 64), 256>>>(out, halves, halves, scale, depth, pitch);
}
