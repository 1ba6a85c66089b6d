// Loads that a store through another pointer keeps inside a loop.
__global__ void scaled_rows(float *out, const float *in, const float *gain, int rows, int columns)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = 0; r < rows; ++r)
        out[r * columns + c] = in[r * columns + c] * gain[c];  // expect: aliasing-reload
}

__global__ void scaled_rows_restrict(float *__restrict__ out, const float *__restrict__ in,
                                     const float *__restrict__ gain, int rows, int columns)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = 0; r < rows; ++r)
        out[r * columns + c] = in[r * columns + c] * gain[c];
}

__global__ void kept_in_a_local(float *out, const float *in, const float *gain, int rows, int columns)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    float g = gain[c];
    for (int r = 0; r < rows; ++r) out[r * columns + c] = in[r * columns + c] * g;  // hint: aliasing-reload
}

__global__ void nothing_is_stored_in_the_loop(float *out, const float *in, const float *gain, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += in[k * n + i] * gain[i];
    out[i] = sum;
}

__global__ void index_follows_the_loop(float *out, const float *in, const float *gain, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = in[i] * gain[i];  // hint: aliasing-reload
}

// Elements that a load through another pointer keeps in memory.
__global__ void filter(float *out, const float *in, const float *taps, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 0;
    for (int k = 0; k < n; ++k)
        out[i] += taps[k] * in[k * n + i];  // expect: aliasing-reload
}

__global__ void filter_in_a_local(float *out, const float *in, const float *taps, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += taps[k] * in[k * n + i];
    out[i] = sum;
}

__global__ void counts_of_another_type(int *out, const float *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < n; ++k) out[i] += in[k * n + i] > 0.0f;  // hint: aliasing-reload
}
