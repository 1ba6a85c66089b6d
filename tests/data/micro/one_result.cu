// A product through shared memory that is written over several lines. A mark names what is expected on its line.

template <int size>
__global__ void one_result(float *__restrict__ out, const float *__restrict__ left, const float *__restrict__ right, int n)
{
    __shared__ float a[size][size], b[size][size];
    int row = blockIdx.y * size + threadIdx.y, column = blockIdx.x * size + threadIdx.x;
    float sum = 0.0f;
    for (int k0 = 0; k0 < n; k0 += size) {
        a[threadIdx.y][threadIdx.x] = left[row * n + k0 + threadIdx.x];  // hint: unoverlapped-copy
        b[threadIdx.y][threadIdx.x] = right[(k0 + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < size; ++k)
            sum += a[threadIdx.y][k] *
                   b[k][threadIdx.x];  // expect: small-register-tile
        __syncthreads();
    }
    out[row * n + column] = sum;
}

void run(float *out, const float *in, int n)
{
    one_result<32><<<dim3(n / 32, n / 32), dim3(32, 32)>>>(out, in, in + n, n);
}
