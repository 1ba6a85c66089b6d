// Accesses of shared memory. See linear.cu for the form.
#include <cstdint>

//! block 256
__global__ void neighbours(float *b)
{
    __shared__ float s[256];
    s[threadIdx.x] = b[threadIdx.x]; //! sts stride=4 conflict=1; ld stride=4 sectors=4
    __syncthreads();
    b[threadIdx.x] = s[255 - threadIdx.x]; //! lds stride=-4 conflict=1
}

//! block 256
__global__ void every_second_word(float *b)
{
    __shared__ float s[512];
    s[2 * threadIdx.x] = b[threadIdx.x]; //! sts stride=8 conflict=2
    __syncthreads();
    b[threadIdx.x] = s[threadIdx.x]; //! lds stride=4 conflict=1
}

//! block 256
__global__ void every_third_word(float *b)
{
    __shared__ float s[768];
    s[3 * threadIdx.x] = b[threadIdx.x]; //! sts stride=12 conflict=1
    __syncthreads();
    b[threadIdx.x] = s[threadIdx.x + 100]; //! lds stride=4 conflict=1
}

//! block 256
__global__ void every_eighth_word(float *b)
{
    __shared__ float s[2048];
    s[8 * threadIdx.x] = b[threadIdx.x]; //! sts stride=32 conflict=8
    __syncthreads();
    b[threadIdx.x] = s[threadIdx.x * 4]; //! lds stride=16 conflict=4
}

//! block 32x32
__global__ void square_tile(const float *a, float *b)
{
    __shared__ float t[32][32];
    t[threadIdx.y][threadIdx.x] = a[threadIdx.y * 32 + threadIdx.x]; //! sts stride=4 conflict=1
    __syncthreads();
    b[threadIdx.y * 32 + threadIdx.x] = t[threadIdx.x][threadIdx.y]; //! lds stride=128 conflict=32
}

//! block 32x32
__global__ void padded_tile(const float *a, float *b)
{
    __shared__ float t[32][33];
    t[threadIdx.y][threadIdx.x] = a[threadIdx.y * 32 + threadIdx.x]; //! sts stride=4 conflict=1
    __syncthreads();
    b[threadIdx.y * 32 + threadIdx.x] = t[threadIdx.x][threadIdx.y]; //! lds stride=132 conflict=1
}

//! block 32x8
__global__ void tile_in_strips(const float *a, float *b)
{
    __shared__ float t[32][32];
#pragma unroll
    for (int k = 0; k < 32; k += 8)
        t[threadIdx.y + k][threadIdx.x] = a[(threadIdx.y + k) * 32 + threadIdx.x]; //! sts stride=4 conflict=1; ld sectors=4
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k += 8)
        b[(threadIdx.y + k) * 32 + threadIdx.x] = t[threadIdx.x][threadIdx.y + k]; //! lds stride=128 conflict=32
}

//! block 16x16
__global__ void small_square_tile(const float *a, float *b)
{
    __shared__ float t[16][16];
    t[threadIdx.y][threadIdx.x] = a[threadIdx.y * 16 + threadIdx.x]; //! sts stride=4 conflict=1; ld stride=4 sectors=4
    __syncthreads();
    b[threadIdx.y * 16 + threadIdx.x] = t[threadIdx.x][threadIdx.y]; //! lds conflict=8
}

//! block 32x32
__global__ void swizzled_tile(const float *a, float *b)
{
    __shared__ float t[32][32];
    t[threadIdx.y][threadIdx.x ^ threadIdx.y] = a[threadIdx.y * 32 + threadIdx.x]; //! sts conflict=1
    __syncthreads();
    b[threadIdx.y * 32 + threadIdx.x] = t[threadIdx.x][threadIdx.y ^ threadIdx.x]; //! lds conflict=1
}

//! block 128
__global__ void doubles(double *b)
{
    __shared__ double s[128];
    s[threadIdx.x] = b[threadIdx.x]; //! sts stride=8 conflict=1
    __syncthreads();
    b[threadIdx.x] = s[127 - threadIdx.x]; //! lds stride=-8 conflict=1
}

//! block 128
__global__ void every_second_double(double *b)
{
    __shared__ double s[256];
    s[2 * threadIdx.x] = b[threadIdx.x]; //! sts stride=16 conflict=2
    __syncthreads();
    b[threadIdx.x] = s[threadIdx.x]; //! lds stride=8 conflict=1
}

//! block 128
__global__ void quadruples(float4 *b)
{
    __shared__ float4 s[128];
    s[threadIdx.x] = b[threadIdx.x]; //! sts stride=16 conflict=1
    __syncthreads();
    b[threadIdx.x] = s[127 - threadIdx.x]; //! lds stride=-16 conflict=1
}

//! block 256
__global__ void bytes(uint8_t *b)
{
    __shared__ uint8_t s[256];
    s[threadIdx.x] = b[threadIdx.x]; //! sts stride=1 conflict=1
    __syncthreads();
    b[threadIdx.x] = s[255 - threadIdx.x]; //! lds stride=-1 conflict=1
}

//! block 256
__global__ void broadcast(float *b)
{
    __shared__ float s[256];
    s[threadIdx.x] = b[threadIdx.x]; //! sts stride=4 conflict=1
    __syncthreads();
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < 256; ++k)
        sum += s[k] * sum + 1.0f; //! lds stride=0 conflict=1
    b[threadIdx.x] = sum;
}

//! block 256
__global__ void tree_of_neighbours(float *b)
{
    __shared__ float s[256];
    s[threadIdx.x] = b[threadIdx.x]; //! sts stride=4 conflict=1
    __syncthreads();
#pragma unroll 1
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half)
            s[threadIdx.x] += s[threadIdx.x + half]; //! lds stride=4 conflict=1; sts stride=4 conflict=1
        __syncthreads();
    }
    b[blockIdx.x] = s[0]; //! lds stride=0 conflict=1
}

//! block 256
__global__ void tree_of_strides(float *b)
{
    __shared__ float s[512];
    s[threadIdx.x] = b[threadIdx.x]; //! sts stride=4 conflict=1
    __syncthreads();
#pragma unroll 1
    for (int step = 1; step < 256; step *= 2) {
        unsigned at = 2 * step * threadIdx.x;
        if (at < 256)
            s[at] += 1.0f; //! lds unknown; sts unknown
        __syncthreads();
    }
    b[blockIdx.x] = s[0]; //! lds stride=0 conflict=1
}

//! block 256
__global__ void padded_index(float *b)
{
    __shared__ float s[264];
    s[threadIdx.x + threadIdx.x / 32] = b[threadIdx.x]; //! sts stride=4 conflict=1
    __syncthreads();
    b[threadIdx.x] = s[threadIdx.x]; //! lds stride=4 conflict=1
}

//! block 256
__global__ void dynamic_array(float *b)
{
    extern __shared__ float s[];
    s[threadIdx.x] = b[threadIdx.x]; //! sts stride=4 conflict=1
    __syncthreads();
    b[threadIdx.x] = s[threadIdx.x ^ 1]; //! lds conflict=1
}

//! block 256
__global__ void second_dynamic_array(float *b, int n)
{
    extern __shared__ float s[];
    float *second = s + n;
    second[threadIdx.x] = b[threadIdx.x]; //! sts stride=4 conflict=1
    __syncthreads();
    b[threadIdx.x] = second[threadIdx.x * 2]; //! lds stride=8 conflict=2
}

__global__ void rows_of_any_block(float *b)
{
    __shared__ float s[1024];
    s[threadIdx.x] = b[threadIdx.x]; //! sts stride=4 conflict=1
    __syncthreads();
    b[threadIdx.x] = s[threadIdx.x ^ 16]; //! lds conflict=1
}

//! block 16x16
__global__ void tiled_product(const float *a, const float *b, float *c, int n)
{
    __shared__ float left[16][16], right[16][16];
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    float sum = 0.0f;
#pragma unroll 1
    for (int from = 0; from < n; from += 16) {
        left[threadIdx.y][threadIdx.x] = a[row * n + from + threadIdx.x];       //! sts stride=4 conflict=1
        right[threadIdx.y][threadIdx.x] = b[(from + threadIdx.y) * n + column]; //! sts stride=4 conflict=1
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < 16; ++k) {
            float x = left[threadIdx.y][k];  //! lds conflict=1
            float y = right[k][threadIdx.x]; //! lds conflict=1
            sum += x * y;
        }
        __syncthreads();
    }
    c[row * n + column] = sum;
}

//! block 256
__global__ void halves(short *b)
{
    __shared__ short s[512];
    s[2 * threadIdx.x] = b[threadIdx.x]; //! sts stride=4 conflict=1
    __syncthreads();
    b[threadIdx.x] = s[threadIdx.x]; //! lds stride=2 conflict=1
}

//! block 32x4
__global__ void one_column_per_warp(float *b)
{
    __shared__ float s[32 * 4];
    s[threadIdx.x * 4 + threadIdx.y] = b[threadIdx.y * 32 + threadIdx.x]; //! sts stride=16 conflict=4
    __syncthreads();
    b[threadIdx.y * 32 + threadIdx.x] = s[threadIdx.y * 32 + threadIdx.x]; //! lds stride=4 conflict=1
}

//! block 256
__global__ void counted(const int *a, int *b)
{
    __shared__ int bins[256];
    bins[threadIdx.x] = 0; //! sts stride=4 conflict=1
    __syncthreads();
    atomicAdd(&bins[a[threadIdx.x] & 255], 1); //! lds unknown; ld stride=4 sectors=4
    __syncthreads();
    b[threadIdx.x] = bins[threadIdx.x]; //! lds stride=4 conflict=1
}
