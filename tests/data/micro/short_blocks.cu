// Kernels that are done almost as soon as they have started. A mark names what is expected on its line.
#include <cstdint>

__global__ void inverted_bytes(uint8_t *__restrict__ out, const uint8_t *__restrict__ in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 255 - in[i];  // expect: scalar-access
}

__global__ void inverted_words(uint4 *__restrict__ out, const uint4 *__restrict__ in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = make_uint4(~in[i].x, ~in[i].y, ~in[i].z, ~in[i].w);
}

__global__ void sum_of_two(float *__restrict__ c, const float *__restrict__ a, const float *__restrict__ b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

__global__ void sum_of_two_in_warps(float *__restrict__ c, const float *__restrict__ a, const float *__restrict__ b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

// Both stores together fill every sector.
__global__ void in_pairs(float *__restrict__ out, const float2 *__restrict__ in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 v = in[i];
    out[2 * i] = v.x;  // expect: scalar-access
    out[2 * i + 1] = v.y;
}

// Enough bytes on their way as floats; as shorts an instruction moves two of them.
template <typename T>
__global__ void doubled(T *__restrict__ out, const T *__restrict__ in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] + in[i];  // expect: scalar-access
}

void launch_doubled(float *f, const float *a, short *h, const short *b, int n)
{
    doubled<<<n / 256, 256>>>(f, a, n);
    doubled<<<n / 256, 256>>>(h, b, n);
}

void launch(float *f, const float *a, const float *b, uint8_t *bytes, const uint8_t *from, uint4 *words, int n)
{
    inverted_bytes<<<n / 256, 256>>>(bytes, from, n);
    inverted_words<<<n / 4096, 256>>>(words, words + n, n / 16);
    sum_of_two<<<n / 256, 256>>>(f, a, b, n);
    sum_of_two_in_warps<<<n / 64, 64>>>(f, a, b, n);  // expect: occupancy-block-size
    in_pairs<<<n / 512, 256>>>(f, reinterpret_cast<const float2 *>(a), n / 2);
}
