// What data leave to chance: lanes that sit a loop out, sums that collide, quotients, and records of any length, beside
// twins that leave nothing. A mark names what is expected on its line.

// Few candidates are near, and the body behind the test is long.
__global__ void near(float *__restrict__ out, const float4 *__restrict__ at, const float4 *__restrict__ others, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 p = at[i];
    float sum = 0.0f;
    for (int j = 0; j < n; ++j) {
        float4 q = others[i + j * 4096];
        float x = p.x - q.x, y = p.y - q.y, z = p.z - q.z, d2 = x * x + y * y + z * z;
        if (d2 < 1.0f) {  // expect: idle-by-data
            float d = __fsqrt_rn(d2), r = __fdividef(1.0f, d), e = __expf(-d), s = __sinf(d), c = __cosf(d);
            sum += e * r * (s * q.w + c * p.w) + __logf(d) * r * r * s - c * e * q.w * p.w * r * __expf(-d * s);
            sum *= 1.0f - e * __sinf(s + c) * __cosf(s - c);
        }
    }
    out[i] = sum;
}

// Gradients by bin.
__global__ void binned(float *__restrict__ out, const float *__restrict__ gradient, const int *__restrict__ bin, int n)
{
    __shared__ float sums[2048];
    for (int k = threadIdx.x; k < 2048; k += blockDim.x) sums[k] = 0.0f;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&sums[bin[i]], gradient[i]);  // expect: swapped-shared-sums
    __syncthreads();
    for (int k = threadIdx.x; k < 2048; k += blockDim.x) out[blockIdx.x * 2048 + k] = sums[k];
}

// The same in fixed point.
__global__ void binned_whole(int *__restrict__ out, const float *__restrict__ gradient, const int *__restrict__ bin, int n)
{
    __shared__ int sums[2048];
    for (int k = threadIdx.x; k < 2048; k += blockDim.x) sums[k] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&sums[bin[i]], __float2int_rn(gradient[i] * 65536.0f));
    __syncthreads();
    for (int k = threadIdx.x; k < 2048; k += blockDim.x) out[blockIdx.x * 2048 + k] = sums[k];
}

// The distances of the grid are the same for all points.
__global__ void diffuse(double *__restrict__ out, const double *__restrict__ in, double dx2, double dy2, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double c = in[i + n];
    out[i + n] = c + (in[i] - 2.0 * c + in[i + 2 * n]) / dx2 + (in[i + 3 * n] - 2.0 * c) / dy2;  // expect: full-divisions
}

__global__ void diffuse_by_products(double *__restrict__ out, const double *__restrict__ in, double rx2, double ry2, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double c = in[i + n];
    out[i + n] = c + (in[i] - 2.0 * c + in[i + 2 * n]) * rx2 + (in[i + 3 * n] - 2.0 * c) * ry2;
}

// How many variables a neuron has only the run knows.
__global__ void neurons(float *states, int variables, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float *own = states + variables * i;
    own[0] = own[0] * 0.9f + own[1];  // expect: runtime-rows, expect: scalar-access
    own[2] = own[2] * 0.8f + own[3] * own[0];
}

__global__ void neurons_in_planes(float *states, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = states[i] * 0.9f + states[n + i], w = states[2 * n + i] * 0.8f + states[3 * n + i] * v;
    states[i] = v;
    states[2 * n + i] = w;
}
