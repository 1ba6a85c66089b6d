// Accesses in two and three dimensions. See linear.cu for the form.
#include <cstddef>

//! block 32x8
__global__ void rows(const float *a, float *b, int pitch)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    b[y * pitch + x] = a[y * pitch + x]; //! ld stride=4 sectors=4-5; st stride=4 sectors=4-5
}

//! block 32x8
__global__ void rows_of_1024(const float *a, float *b)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    b[y * 1024 + x] = a[y * 1024 + x]; //! ld stride=4 sectors=4; st stride=4 sectors=4
}

//! block 32x8
__global__ void rows_of_1001(const float *a, float *b)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    b[y * 1001 + x] = a[y * 1001 + x]; //! ld stride=4 sectors=4-5; st stride=4 sectors=4-5
}

//! block 32x8
__global__ void columns(const float *a, float *b, int pitch)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    b[y * 1024 + x] = a[x * pitch + y]; //! ld unknown; st stride=4 sectors=4
}

//! block 32x8
__global__ void columns_of_512(const float *a, float *b)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    b[y * 1024 + x] = a[x * 512 + y]; //! ld stride=2048 sectors=32; st stride=4 sectors=4
}

//! block 16x16
__global__ void half_rows(const float *a, float *b)
{
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    b[y * 1024 + x] = a[y * 1024 + x]; //! ld sectors=4; st sectors=4
}

//! block 8x8
__global__ void quarter_rows(const float *a, float *b)
{
    int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    b[y * 1024 + x] = a[y * 1024 + x]; //! ld sectors=4; st sectors=4
}

//! block 4x64
__global__ void narrow_rows(const float *a, float *b)
{
    int x = blockIdx.x * 4 + threadIdx.x, y = blockIdx.y * 64 + threadIdx.y;
    b[y * 1024 + x] = a[y * 1024 + x]; //! ld sectors=8; st sectors=8
}

//! block 8x4x4
__global__ void small_bricks(const float *a, float *b)
{
    int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x * 4 + threadIdx.z;
    b[(z * 64 + y) * 64 + x] = a[(z * 64 + y) * 64 + x]; //! ld sectors=4; st sectors=4
}

//! block 4x4x4
__global__ void tiny_bricks(const float *a, float *b)
{
    int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x * 4 + threadIdx.z;
    b[(z * 64 + y) * 64 + x] = a[(z * 64 + y) * 64 + x]; //! ld sectors=8; st sectors=8
}

//! block 32x4x2
__global__ void volume(const float *a, float *b, int width, int height)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y, z = blockIdx.z * 2 + threadIdx.z;
    b[(z * height + y) * width + x] = a[(z * height + y) * width + x]; //! ld stride=4 sectors=4-5; st stride=4 sectors=4-5
}

//! block 32x8
__global__ void corner_of_a_stencil(const float *a, float *b)
{
    int x = blockIdx.x * 32 + threadIdx.x + 1, y = blockIdx.y * 8 + threadIdx.y + 1;
    float left = a[y * 1024 + x - 1];      //! ld stride=4 sectors=4
    float right = a[y * 1024 + x + 1];     //! ld stride=4 sectors=5
    float above = a[(y - 1) * 1024 + x];   //! ld stride=4 sectors=5
    b[y * 1024 + x] = left + right + above; //! st stride=4 sectors=5
}

//! block 32x8
__global__ void product_by_rows(const float *a, const float *b, float *c, int n)
{
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < n; ++k) {
        float left = a[row * n + k];     //! ld stride=0 sectors=1
        float right = b[k * n + column]; //! ld stride=4 sectors=4-5
        sum += left * right;
    }
    c[row * n + column] = sum; //! st stride=4 sectors=4-5
}

//! block 16x16
__global__ void product_by_squares(const float *a, const float *b, float *c, int n)
{
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < n; ++k) {
        float left = a[row * n + k];     //! ld unknown
        float right = b[k * n + column]; //! ld sectors=2-3
        sum += left * right;
    }
    c[row * n + column] = sum;
}

//! block 32x8
__global__ void pitched(const char *a, float *b, size_t pitch)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    const float *row = reinterpret_cast<const float *>(a + y * pitch);
    b[y * 1024 + x] = row[x]; //! ld stride=4 sectors=4-5; st stride=4 sectors=4
}

//! block 48
__global__ void one_and_a_half_warps(const float *a, float *b)
{
    b[blockIdx.x * 64 + threadIdx.x] = a[blockIdx.x * 48 + threadIdx.x]; //! ld stride=4 sectors=4; st stride=4 sectors=4
}

//! block 20x20
__global__ void uneven_rows(const float *a, float *b)
{
    int x = blockIdx.x * 20 + threadIdx.x, y = blockIdx.y * 20 + threadIdx.y;
    b[y * 1024 + x] = a[y * 1024 + x]; //! ld sectors=5-6; st sectors=5-6
}
