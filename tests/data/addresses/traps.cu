// Control flow that an analysis of addresses easily gets wrong. See linear.cu for the form.

#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

__global__ void lanes_step_differently(const float *a, float *b, int n)
{
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0, at = threadIdx.x; k < n; ++k, at += threadIdx.x)
        sum += a[at]; //! ld unknown
    b[INDEX] = sum;   //! st stride=4 sectors=4
}

__global__ void lanes_skip(const int *a, float *b, int n)
{
    int i = INDEX, at = i;
#pragma unroll 1
    for (int k = 0; k < n; ++k) {
        b[at] = k; //! st unknown
        if (a[k * 1024 + i] > 0)
            at += 32;
        else
            at += 64;
    }
}

__global__ void all_skip_alike(const int *a, float *b, int n)
{
    int at = INDEX;
#pragma unroll 1
    for (int k = 0; k < n; ++k) {
        b[at] = k; //! st stride=4 sectors=4
        if (a[k] > 0)
            at += 32;
        else
            at += 64;
    }
}

__global__ void swapped_halves(float *a, float *b, int n)
{
    float *from = a, *to = b;
#pragma unroll 1
    for (int k = 0; k < n; ++k) {
        float x = from[INDEX]; //! ld stride=4
        to[INDEX] = x + 1.0f;  //! st stride=4
        float *kept = from;
        from = to;
        to = kept;
        __syncthreads();
    }
}

__global__ void from_a_neighbour(const float *a, float *b)
{
    int from = __shfl_xor_sync(~0u, INDEX, 3);
    b[INDEX] = a[from]; //! ld unknown; st stride=4 sectors=4
}

__global__ void packed_by_ballot(const float *a, float *b)
{
    float x = a[INDEX]; //! ld stride=4 sectors=4
    unsigned which = __ballot_sync(~0u, x > 0.0f);
    int at = __popc(which & ((1u << (threadIdx.x % 32)) - 1));
    if (x > 0.0f)
        b[blockIdx.x * 1024 + at] = x; //! st unknown
}

__device__ __noinline__ int elsewhere(int i)
{
    return i * 7 + clock();
}

__global__ void called(const float *a, float *b)
{
    int from = elsewhere(threadIdx.x);
    b[INDEX] = a[from]; //! ld unknown
}

__global__ void odd_lanes_elsewhere(const float *a, float *b)
{
    const float *from = a;
    if (threadIdx.x % 2)
        from = b + 4096;
    b[INDEX] = from[threadIdx.x]; //! ld unknown; st stride=4 sectors=4
}

__global__ void one_of_many(const float *a, float *b, int which)
{
    int from;
    switch (which) {
    case 0: from = 0; break;
    case 1: from = 320; break;
    case 2: from = 77; break;
    case 3: from = threadIdx.x; break;
    default: from = 1;
    }
    b[INDEX] = a[from + threadIdx.x]; //! ld unknown; st stride=4 sectors=4
}

__global__ void each_lane_its_own_trips(const float *a, float *b)
{
    int n = threadIdx.x % 5, at = threadIdx.x;
#pragma unroll 1
    for (int k = 0; k < n; ++k)
        at += 32;
    b[INDEX] = a[at]; //! ld unknown
}

__global__ void nested_with_resets(const float *a, float *b, int n)
{
    float sum = 0.0f;
#pragma unroll 1
    for (int y = 0; y < n; ++y) {
#pragma unroll 1
        for (int x = 0; x < n; x += 32)
            sum += a[y * 256 + x + threadIdx.x]; //! ld stride=4 sectors=4
    }
    b[INDEX] = sum; //! st stride=4 sectors=4
}

__global__ void growing_steps(const float *a, float *b, int n)
{
    float sum = 0.0f;
#pragma unroll 1
    for (int step = 32; step < n; step *= 2)
        sum += a[step + threadIdx.x]; //! ld stride=4 sectors=4
    b[INDEX] = sum;                   //! st stride=4 sectors=4
}

__global__ void steps_of_any_size(const float *a, float *b, int n, int first)
{
    float sum = 0.0f;
#pragma unroll 1
    for (int step = first; step < n; step = step * 3 + 1)
        sum += a[step + threadIdx.x]; //! ld stride=4 sectors=4-5
    b[INDEX] = sum;                   //! st stride=4 sectors=4
}
