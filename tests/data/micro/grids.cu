// Grids that leave SMs idle, for the whole kernel or in the last wave, and ones that do not.
__global__ void few_blocks(float *__restrict__ out, const float *__restrict__ in, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float x = in[i];
        for (int k = 0; k < 100; ++k) x = x * x + 0.1f;
        out[i] = x;
    }
}

__global__ void uneven(float *__restrict__ out, const float *__restrict__ in, int rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i];
    for (int k = 0; k < rounds; ++k) x = x * x + 0.1f;
    out[i] = x;
}

__global__ void even(float *__restrict__ out, const float *__restrict__ in, int rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i];
    for (int k = 0; k < rounds; ++k) x = x * x + 0.1f;
    out[i] = x;
}

__global__ void partial_sums(float *__restrict__ partial, const float *__restrict__ in, int n)
{
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];  // hint: one-load-in-flight
    atomicAdd(&partial[blockIdx.x], sum);
}

__global__ void total(float *__restrict__ out, const float *__restrict__ partial, int count)
{
    float sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += blockDim.x) sum += partial[i];  // expect: one-load-in-flight
    atomicAdd(out, sum);  // expect: global-atomic-contention
}

void launch(float *out, const float *in, float *partial, int n)
{
    few_blocks<<<16, 256>>>(out, in, n);  // expect: grid-too-small
    uneven<<<150, 1024>>>(out, in, n);  // expect: wave-quantization
    even<<<1320, 1024>>>(out, in, n);
    const int blocks = 1056;
    partial_sums<<<blocks, 256>>>(partial, in, n);
    total<<<1, 256>>>(out, partial, blocks);
}

// A warp for each scheduler, every thread with an element of its own: its chain is the nearer cause.
__global__ void one_chain_each(float *out, const float *in, int terms)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i], sum = 0.0f;
    for (int k = 0; k < terms; ++k) sum = sum * x + 1.5f;  // expect: low-ilp
    out[i] = sum;
}

void launch_chains(float *out, const float *in, int terms)
{
    one_chain_each<<<132, 128>>>(out, in, terms);  // expect: grid-too-small
}

// One block, as large as the caller says, and a tree whose block is not known.
__global__ void steps_of_one_block(float *best, const float *in, int steps)
{
    extern __shared__ float least[];
    int t = threadIdx.x;
    float x = in[t];
    for (int k = 0; k < steps; ++k) {
        least[t] = x;
        __syncthreads();
        for (int s = blockDim.x / 2; s > 0; s >>= 1) {
            if (t < s) least[t] = fminf(least[t], least[t + s]);
            __syncthreads();  // expect: barrier-heavy
        }
        x += 0.5f * least[0];
        __syncthreads();
    }
    best[t] = x;
}

void launch_one_block(float *best, const float *in, int threads, int steps)
{
    steps_of_one_block<<<1, threads, threads * sizeof(float)>>>(best, in, steps);  // expect: grid-too-small
}
