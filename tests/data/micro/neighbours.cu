// Neighbouring elements that a thread moves one by one, and twins that do not. A mark names what is expected on its line.
#include <cuda_fp16.h>

__global__ void painted(unsigned char *__restrict__ pixels, const float *__restrict__ red, int width)
{
    int at = blockIdx.y * width + blockIdx.x * blockDim.x + threadIdx.x;
    float r = red[at];
    pixels[at * 4 + 0] = (unsigned char)(r * 255.0f);  // expect: scalar-access
    pixels[at * 4 + 1] = (unsigned char)(r * 127.0f);
    pixels[at * 4 + 2] = (unsigned char)(r * 63.0f);
    pixels[at * 4 + 3] = 255;
}

__global__ void painted_at_once(uchar4 *__restrict__ pixels, const float *__restrict__ red, int width)
{
    int at = blockIdx.y * width + blockIdx.x * blockDim.x + threadIdx.x;
    float r = red[at];
    pixels[at] = make_uchar4((unsigned char)(r * 255.0f), (unsigned char)(r * 127.0f), (unsigned char)(r * 63.0f), 255);
}

// Neighbouring lanes overlap: no vector of a lane's own.
__global__ void smoothed(float *__restrict__ out, const float *__restrict__ in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x + 2;
    out[i] = in[i - 2] + in[i - 1] + in[i] + in[i + 1] + in[i + 2];
}

// Two lanes share a row, two bytes each.
__global__ void row_sums(__half *__restrict__ out, const __half *__restrict__ in, size_t columns)
{
    size_t row = blockIdx.x * 64 + threadIdx.x / 2, half = threadIdx.x % 2;
    float sum = 0.0f;
    for (size_t k = 0; k < columns / 2; ++k)
        sum += __half2float(in[row * columns + k * 2 + half]);  // expect: uncoalesced-global-read
    out[row * 2 + half] = __float2half(sum);
}

// More instructions to find eight bytes than to move them.
__global__ void heads_split(float *__restrict__ out, const float *__restrict__ in, int heads, int size, int length)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int d = i % size, h = i / size % heads, s = i / (size * heads) % length, b = i / (size * heads * length);  // expect: integer-division
    out[((b * heads + h) * length + s) * size + d] = in[i];  // expect: scalar-access
}

// Pixels from shared memory, a byte at a time.
__global__ void box_sums(unsigned *__restrict__ out, const uchar4 *__restrict__ in)
{
    __shared__ uchar4 row[64 + 256];
    row[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x % 64];
    __syncthreads();
    const unsigned char *pixel = reinterpret_cast<const unsigned char *>(row) + threadIdx.x;
    unsigned sum = 0;
    for (int k = 0; k < 1024; ++k) sum += pixel[k];  // expect: scalar-access
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}

void run(float *out, const float *in, unsigned char *pixels, __half *halves, unsigned *sums, int n, int m)
{
    painted<<<dim3(n / 256, m), 256>>>(pixels, in, n);
    painted_at_once<<<dim3(n / 256, m), 256>>>(reinterpret_cast<uchar4 *>(pixels), in, n);
    smoothed<<<n / 256, 256>>>(out, in);
    row_sums<<<n / 64, 128>>>(halves, halves + n, m);
    heads_split<<<n / 256, 256>>>(out, in, m, m + 1, n);
    box_sums<<<n / 64, 256>>>(sums, reinterpret_cast<const uchar4 *>(pixels));
}
