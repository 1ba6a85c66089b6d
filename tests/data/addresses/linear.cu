// Accesses whose pattern is known, each with what a full warp's request of it costs.
//
//   //! ld|st|lds|sts [stride=BYTES] [sectors=N or LEAST-MOST] [conflict=DEGREE] | unknown
//
// stands on the line of the access; `//! block XxY` before a kernel fixes its block, else blockDim.x is a
// multiple of 32. Pointers are aligned to 256 bytes; where sectors hang on a parameter both counts stand.
#include <cstddef>
#include <cstdint>

#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

__global__ void copy_float(const float *a, float *b)
{
    int i = INDEX;
    b[i] = a[i]; //! ld stride=4 sectors=4; st stride=4 sectors=4
}

__global__ void copy_bounded(const float *a, float *b, int n)
{
    int i = INDEX;
    if (i < n)
        b[i] = a[i]; //! ld stride=4 sectors=4; st stride=4 sectors=4
}

__global__ void copy_float4(const float4 *a, float4 *b)
{
    int i = INDEX;
    b[i] = a[i]; //! ld stride=16 sectors=16; st stride=16 sectors=16
}

__global__ void copy_double(const double *a, double *b)
{
    int i = INDEX;
    b[i] = a[i]; //! ld stride=8 sectors=8; st stride=8 sectors=8
}

__global__ void copy_byte(const uint8_t *a, uint8_t *b)
{
    int i = INDEX;
    b[i] = a[i]; //! ld stride=1 sectors=1; st stride=1 sectors=1
}

__global__ void copy_short(const short *a, short *b)
{
    int i = INDEX;
    b[i] = a[i]; //! ld stride=2 sectors=2; st stride=2 sectors=2
}

__global__ void copy_float2(const float2 *a, float2 *b)
{
    int i = INDEX;
    b[i] = a[i]; //! ld stride=8 sectors=8; st stride=8 sectors=8
}

__global__ void copy_wide_index(const float *a, float *b, size_t n)
{
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)
        b[i] = a[i]; //! ld stride=4 sectors=4; st stride=4 sectors=4
}

__global__ void every_second(const float *a, float *b)
{
    int i = INDEX;
    b[i] = a[2 * i]; //! ld stride=8 sectors=8; st stride=4 sectors=4
}

__global__ void every_third(const float *a, float *b)
{
    int i = INDEX;
    b[i] = a[3 * i]; //! ld stride=12 sectors=12; st stride=4 sectors=4
}

struct Point {
    float x, y, z;
};

__global__ void record_fields(const Point *p, float *b)
{
    int i = INDEX;
    float x = p[i].x; //! ld stride=12 sectors=12
    float y = p[i].y; //! ld stride=12 sectors=12
    float z = p[i].z; //! ld stride=12 sectors=12
    b[i] = x + y + z; //! st stride=4 sectors=4
}

struct Particle {
    float position[3], mass, velocity[3], charge;
};

__global__ void record_of_a_sector(const Particle *p, float *b)
{
    int i = INDEX;
    b[i] = p[i].mass; //! ld stride=32 sectors=32; st stride=4 sectors=4
}

__global__ void shifted_by_one(const float *a, float *b)
{
    int i = INDEX;
    b[i] = a[i + 1]; //! ld stride=4 sectors=5; st stride=4 sectors=4
}

__global__ void shifted_back(const float *a, float *b)
{
    int i = INDEX;
    b[i] = a[i - 1]; //! ld stride=4 sectors=5; st stride=4 sectors=4
}

__global__ void shifted_by_a_sector(const float *a, float *b)
{
    int i = INDEX;
    b[i] = a[i + 8]; //! ld stride=4 sectors=4; st stride=4 sectors=4
}

__global__ void shifted_by_a_parameter(const float *a, float *b, int offset)
{
    int i = INDEX;
    b[i] = a[i + offset]; //! ld stride=4 sectors=4-5; st stride=4 sectors=4
}

__global__ void reversed(const float *a, float *b, int n)
{
    int i = INDEX;
    b[i] = a[n - 1 - i]; //! ld stride=-4 sectors=4-5; st stride=4 sectors=4
}

__global__ void reversed_in_block(const float *a, float *b)
{
    int i = INDEX;
    b[i] = a[blockIdx.x * blockDim.x + blockDim.x - 1 - threadIdx.x]; //! ld stride=-4 sectors=4; st stride=4 sectors=4
}

__global__ void one_for_all(const float *a, float *b)
{
    int i = INDEX;
    b[i] = a[blockIdx.x]; //! ld stride=0 sectors=1; st stride=4 sectors=4
}

__global__ void first_for_all(const float *a, float *b)
{
    int i = INDEX;
    b[i] = a[0]; //! ld stride=0 sectors=1; st stride=4 sectors=4
}

__global__ void grid_stride(const float *a, float *b, int n)
{
    for (int i = INDEX; i < n; i += gridDim.x * blockDim.x)
        b[i] = 2.0f * a[i]; //! ld stride=4 sectors=4; st stride=4 sectors=4
}

__global__ void grid_stride_float4(const float4 *a, float4 *b, int n)
{
    for (int i = INDEX; i < n; i += gridDim.x * blockDim.x)
        b[i] = a[i]; //! ld stride=16 sectors=16; st stride=16 sectors=16
}

__global__ void grid_stride_wide(const float *__restrict__ a, float *b, size_t n)
{
    size_t step = size_t(gridDim.x) * blockDim.x;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
        b[i] = 2.0f * a[i]; //! ld stride=4 sectors=4; st stride=4 sectors=4
}

__global__ void chunk_of_eight(const float *a, float *b)
{
    int i = INDEX;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k)
        sum += a[8 * i + k]; //! ld stride=32 sectors=32
    b[i] = sum; //! st stride=4 sectors=4
}

__global__ void chunk_of_four(const float *a, float *b)
{
    int i = INDEX;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k)
        sum += a[4 * i + k]; //! ld stride=16 sectors=16
    b[i] = sum; //! st stride=4 sectors=4
}

__global__ void chunk_in_a_loop(const float *a, float *b)
{
    int i = INDEX;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < 64; ++k)
        sum += a[64 * i + k]; //! ld stride=256 sectors=32
    b[i] = sum; //! st stride=4 sectors=4
}

__global__ void chunk_of_a_parameter(const float *a, float *b, int n)
{
    int i = INDEX;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < n; ++k)
        sum += a[n * i + k]; //! ld unknown
    b[i] = sum; //! st stride=4 sectors=4
}

__global__ void blocks_apart(const float *a, float *b)
{
    int i = blockIdx.x * blockDim.x * 4 + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 4; ++k)
        b[i + k * blockDim.x] = a[i + k * blockDim.x]; //! ld stride=4 sectors=4; st stride=4 sectors=4
}

__global__ void neighbour_pairs(const float *a, float *b)
{
    int i = INDEX;
    b[i] = a[i ^ 1]; //! ld sectors=4; st stride=4 sectors=4
}

__global__ void in_fours(const float *a, float *b)
{
    int i = INDEX;
    b[i] = a[i & ~3]; //! ld sectors=4; st stride=4 sectors=4
}

__global__ void halved(const float *a, float *b)
{
    int i = INDEX;
    b[i] = a[i / 2]; //! ld sectors=2; st stride=4 sectors=4
}

__global__ void one_per_warp(const float *a, float *b)
{
    int i = INDEX;
    b[i] = a[i / 32]; //! ld stride=0 sectors=1; st stride=4 sectors=4
}

__global__ void repeated_in_warps(const float *a, float *b)
{
    unsigned i = INDEX;
    b[i] = a[i % 32]; //! ld stride=4 sectors=4; st stride=4 sectors=4
}

__global__ void repeated_signed(const float *a, float *b)
{
    int i = INDEX;
    b[i] = a[i % 32]; //! ld stride=4 sectors=4; st stride=4 sectors=4
}

__global__ void half_warps(const float *a, float *b)
{
    b[INDEX] = a[threadIdx.x % 16]; //! ld sectors=2; st stride=4 sectors=4
}

__global__ void transposed_in_warps(const float *a, float *b)
{
    unsigned i = INDEX;
    b[i] = a[(i % 32) * 32 + i / 32]; //! ld stride=128 sectors=32; st stride=4 sectors=4
}

__global__ void lane_and_warp(const float *a, float *b)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    b[warp * 96 + lane] = a[warp * 64 + 32 + lane]; //! ld stride=4 sectors=4; st stride=4 sectors=4
}

__global__ void warp_per_row(const float *a, float *b, int n)
{
    int lane = threadIdx.x % 32, row = INDEX / 32;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = lane; k < n; k += 32)
        sum += a[row * n + k]; //! ld stride=4 sectors=4-5
    b[row * 32 + lane] = sum;  //! st stride=4 sectors=4
}

__global__ void warp_per_row_of_1024(const float *a, float *b)
{
    int lane = threadIdx.x % 32, row = INDEX / 32;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = lane; k < 1024; k += 32)
        sum += a[row * 1024 + k]; //! ld stride=4 sectors=4
    b[row * 32 + lane] = sum;     //! st stride=4 sectors=4
}

__global__ void odd_elements(float *b)
{
    b[2 * INDEX + 1] = 1.0f; //! st stride=8 sectors=8
}

__global__ void pairs_of_int(int2 *b)
{
    b[INDEX] = make_int2(1, 2); //! st stride=8 sectors=8
}

__global__ void far_apart(float *b)
{
    b[32 * INDEX] = 1.0f; //! st stride=128 sectors=32
}

__global__ void table_of_pointers(float *const *tables, float *b)
{
    const float *a = tables[blockIdx.x]; //! ld stride=0 sectors=1
    b[INDEX] = a[threadIdx.x];           //! ld stride=4 sectors=4-5; st stride=4 sectors=4
}

__global__ void gathered(const float *a, const int *index, float *b)
{
    int i = INDEX;
    int from = index[i]; //! ld stride=4 sectors=4
    b[i] = a[from];      //! ld unknown; st stride=4 sectors=4
}

__global__ void gathered_rows(const float *a, const int *index, float *b)
{
    int from = index[blockIdx.x];             //! ld stride=0 sectors=1
    b[INDEX] = a[from * 1024 + threadIdx.x]; //! ld stride=4 sectors=4; st stride=4 sectors=4
}

__global__ void added_up(float *b)
{
    atomicAdd(&b[INDEX], 1.0f); //! st stride=4 sectors=4
}

__global__ void pointer_steps(const float *a, float *b, int n, int pitch)
{
    const float *at = a + INDEX;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < n; ++k, at += pitch)
        sum += *at; //! ld stride=4 sectors=4-5
    b[INDEX] = sum; //! st stride=4 sectors=4
}

__global__ void pointer_steps_of_1024(const float *a, float *b, int n)
{
    const float *at = a + INDEX;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < n; ++k, at += 1024)
        sum += *at; //! ld stride=4 sectors=4
    b[INDEX] = sum; //! st stride=4 sectors=4
}

__global__ void unrolled_column(const float *a, float *b, int n)
{
    int i = INDEX;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k)
        sum += a[k * 512 + i]; //! ld stride=4 sectors=4
    b[i] = sum;                //! st stride=4 sectors=4
}

__global__ void cut_off(const float *a, float *b, int n)
{
    int i = INDEX;
    b[i] = a[min(i, n - 1)]; //! ld unknown; st stride=4 sectors=4
}

__global__ void wrapped(const float *a, float *b, int n)
{
    int i = INDEX;
    b[i] = a[(i + 1) % n]; //! ld unknown; st stride=4 sectors=4
}

__global__ void thirds(const float *a, float *b)
{
    int i = INDEX;
    b[i] = a[i / 3]; //! ld unknown; st stride=4 sectors=4
}

__global__ void few_lanes(const float *a, float *b)
{
    if (threadIdx.x < 8)
        b[threadIdx.x] = a[threadIdx.x]; //! ld stride=4; st stride=4
}

__global__ void one_lane(float *b)
{
    if (threadIdx.x == 0)
        b[blockIdx.x] = 1.0f; //! st stride=0
}

//! block 256
__global__ void two_warps_of_eight(const float *a, float *b)
{
    if (threadIdx.x < 64)
        b[threadIdx.x] = a[threadIdx.x]; //! ld stride=4 sectors=4; st stride=4 sectors=4
}

__global__ void either_array(const float *a, const float *c, float *b, int which)
{
    int i = INDEX;
    const float *from = which ? a : c;
    b[i] = from[i]; //! ld stride=4; st stride=4 sectors=4
}

__global__ void either_index(const float *a, float *b)
{
    int i = INDEX;
    int from = (threadIdx.x & 1) ? i : 0;
    b[i] = a[from]; //! ld unknown; st stride=4 sectors=4
}

__global__ void until_it_is_found(const float *a, float *b, int n)
{
    int i = INDEX, k = 0;
    while (k < n && a[k * 1024 + i] < 0.0f) //! ld stride=4 sectors=4
        ++k;
    b[k * 1024 + i] = 1.0f; //! st unknown
}
