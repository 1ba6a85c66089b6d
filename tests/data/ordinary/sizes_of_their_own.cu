// Kernels written for one size of block, clocks around launches, places that data chooses: none is worth a warning.

// A block is one face of 25 points: a larger block would find no more of them.
__global__ void add_to_faces(float *__restrict__ field, const int *__restrict__ place, const float *__restrict__ flux,
                             int faces)
{
    int point = threadIdx.x, face = blockIdx.x + gridDim.x * blockIdx.y;
    if (face < faces) {
        float f = flux[face * 25 + point];
        field[place[face * 25 + point]] = f * f / (f + 1.0f);
    }
}

void faces(float *field, const int *place, const float *flux, int n)
{
    add_to_faces<<<dim3(n, 4), 25>>>(field, place, flux, n);  // told: occupancy-block-size information
}

// One addition a thread of the block at the end of loops over the whole batch.
__global__ void channel_sums(float *__restrict__ sums, const float *__restrict__ values, int images, int channels,
                             int pixels)
{
    __shared__ float part[512];
    int channel = blockIdx.x, t = threadIdx.x;
    float sum = 0.0f;
    for (int image = 0; image < images; ++image)
        for (int i = 0; i < pixels; i += 512)
            if (t + i < pixels) sum += values[t + i + pixels * (channel + channels * image)];
    part[t] = sum;
    __syncthreads();
    if (t == 0)
        for (int i = 0; i < 512; ++i) sums[channel] += part[i];  // told: lone-thread-loop information
}

void sums(float *out, const float *values, int images, int channels, int pixels)
{
    channel_sums<<<channels, 512>>>(out, values, images, channels, pixels);
}

// The angle of each pixel and its column choose the bin: few lanes meet, whatever is added to the place at last.
__global__ void orientation_bins(float *__restrict__ bins, const float *__restrict__ across,
                                 const float *__restrict__ along)
{
    __shared__ float held[128];
    int x = threadIdx.x, y = threadIdx.y, own = y * 16 + x;
    held[own] = 0.0f;
    __syncthreads();
    float dx = across[blockIdx.x * 128 + own], dy = along[blockIdx.x * 128 + own];
    int place = 8 * ((x + 2) / 4 - 1) + (int)(4.0f / 3.1416f * atan2f(dy, dx) + 4.0f);
    if (x >= 2 && y < 6) {
        atomicAdd(held + place + 32, dx * dx);
        atomicAdd(held + place + 40, dy * dy);
    }
    __syncthreads();
    bins[blockIdx.x * 128 + own] = held[own];
}

void orientations(float *bins, const float *across, const float *along)
{
    orientation_bins<<<4096, dim3(16, 8)>>>(bins, across, along);
}

// The table of the `switch` is the compiler's, and one argument chooses from it for all lanes.
__global__ void activate(float *x, int n, int kind)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    switch (kind) {
        case 0: v = 1.0f / (1.0f + __expf(-v)); break;
        case 1: v = v * v; break;
        case 2: v = __expf(v); break;
        case 3: v = __logf(v); break;
        case 4: v = sqrtf(v); break;
        case 5: v = v > 0.0f ? v : 0.1f * v; break;
        case 6: v = __sinf(v); break;
        case 7: v = v + 1.0f; break;
    }
    x[i] = v;
}

void activation(float *x, int n, int kind) { activate<<<(n + 255) / 256, 256>>>(x, n, kind); }

__global__ void doubled(float *x)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] *= 2.0f;
}

double get_time();

// The wait is what is timed.
double mean_time(float *x)
{
    double sum = 0.0;
    for (int run = 0; run < 50; ++run) {
        double start = get_time();
        doubled<<<1000, 256>>>(x);
        cudaDeviceSynchronize();
        sum += get_time() - start;
    }
    return sum / 50;
}

// The same two numbers for every thread: a line to move to the host.
__global__ void corrected_step(float *__restrict__ w, const float *__restrict__ g, int n, float b1, float b2, int step)
{
    int i = (blockIdx.x + blockIdx.y * gridDim.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float first = 1.0f - powf(b1, step), second = 1.0f - powf(b2, step);  // told: repeated-work information
    w[i] -= g[i] / first * second;
}

void step(float *w, const float *g, int n, dim3 grid, float b1, float b2, int at)
{
    corrected_step<<<grid, 512>>>(w, g, n, b1, b2, at);
}

// A byte in, a float out: four elements a thread at most, however narrow what is read.
__global__ void to_floats(float *__restrict__ out, const unsigned char *__restrict__ in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * (1.0f / 255.0f);  // told: scalar-access warning
}

void convert(float *out, const unsigned char *in) { to_floats<<<1 << 18, 256>>>(out, in, 1 << 26); }

// The same of as many as the caller has: they may lie in the L2, where narrow reads cost little.
__global__ void to_scaled(float *__restrict__ out, const unsigned char *__restrict__ in, int n, float by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * by;  // told: scalar-access information
}

void scale(float *out, const unsigned char *in, int n) { to_scaled<<<(n + 255) / 256, 256>>>(out, in, n, 0.5f); }
