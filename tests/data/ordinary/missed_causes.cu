// Causes that ordinary code hides: behind a guard, in one of several instantiations, behind memory.

// All pixels of a block go through one list, so that the lanes that take part add to one place at a time.
__global__ void splat(float *gradients, const int *list, const float *weights, int count, float limit)
{
    __shared__ int ids[256];
    float x = weights[threadIdx.x + blockIdx.x * 256];
    for (int round = 0; round < count; round += 256) {
        __syncthreads();
        ids[threadIdx.x] = list[round + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 256; ++j) {
            x = x * 0.9f + 0.1f;
            if (x < limit) continue;
            int id = ids[j];
            atomicAdd(&gradients[id], x);  // told: global-atomic-contention information
        }
    }
}

void run_splat(float *gradients, const int *list, const float *weights, int count, float limit)
{
    splat<<<2000, 256>>>(gradients, list, weights, count, limit);
}

// Made for float and for double: the literal is double in both.
template <typename T>
__global__ void soft_steps(T *__restrict__ values, T scale, int n, int steps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T v = values[i];
    for (int s = 0; s < steps; ++s) v = 1.0 / (1.0 + v * scale);  // told: double-in-float-kernel information
    values[i] = v;
}

void run_soft(float *f, double *d, int n, int steps)
{
    soft_steps<<<(n + 255) / 256, 256>>>(f, 0.5f, n, steps);
    soft_steps<<<(n + 255) / 256, 256>>>(d, 0.5, n, steps);
}

// Sizes of 64 bits that fit 32: the short path of the division is all that runs, and it is the kernel's work.
__global__ void rolled(float *__restrict__ to, const float *__restrict__ from, long n, long n0, long n1, long n2)
{
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const long a = i % n0;  // told: integer-division information
    const long b = i / n0 % n1;
    const long c = i / (n0 * n1) % n2;
    to[i] = from[(c * n1 + (b + 1) % n1) * n0 + a];
}

void run_rolled(float *to, const float *from, long n, long n0, long n1, long n2)
{
    rolled<<<(n + 255) / 256, 256>>>(to, from, n, n0, n1, n2);
}

// One division beside much traffic: it hides there.
__global__ void biased(float *__restrict__ y, const float4 *__restrict__ x, const float4 *__restrict__ z,
                       const float *__restrict__ bias, int n, int channels)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 a = x[i], b = z[i];
    y[i] = a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w + bias[i % channels];
}

void run_biased(float *y, const float4 *x, const float4 *z, const float *bias, int n, int channels)
{
    biased<<<(n + 255) / 256, 256>>>(y, x, z, bias, n, channels);
}

// Two blocks an SM, one load a thread in flight: the store of each iteration may be to what the next one loads.
__global__ void leaky(float *y, const float *x, int n, float slope)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = x[i] > 0.0f ? x[i] : x[i] * slope;  // told: aliasing-reload information
}

void run_leaky(float *y, const float *x, int n, float slope)
{
    leaky<<<264, 256>>>(y, x, n, slope);  // told: grid-too-small information
}

__global__ void leaky_apart(float *__restrict__ y, const float *__restrict__ x, int n, float slope)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = x[i] > 0.0f ? x[i] : x[i] * slope;
}

void run_leaky_apart(float *y, const float *x, int n, float slope)
{
    leaky_apart<<<264, 256>>>(y, x, n, slope);  // told: grid-too-small information
}

// A mock that spends its time on purpose: what it computes beside that costs nothing.
__device__ unsigned long long nanoseconds()
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

__global__ void mock(float *to, const float *from, long n, long shift, unsigned long long duration)
{
    const unsigned long long start = nanoseconds();
    while (nanoseconds() - start < duration) {
    }
    for (long i = threadIdx.x; i < n; i += blockDim.x) to[(i + shift) % n] = from[i % shift];  // told: integer-division information
}

void run_mock(float *to, const float *from, long n, long shift) { mock<<<264, 256>>>(to, from, n, shift, 40000); }

// Three velocities march along an axis: each is stored before the next one's loads, which may be the same memory.
__global__ void march(float *u, float *v, float *w, float *stress, int planes, int plane)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    for (int p = 0; p < planes; ++p, at += plane) {
        u[at] += stress[at] - stress[at + 1];
        v[at] += stress[at + plane] - stress[at];
        w[at] += stress[at + 2] - stress[at];  // told: aliasing-reload information
    }
}

// Read by the read-only path and written by a pointer of its own: the loads may be issued together.
__global__ void march_alone(float *__restrict__ u, float *__restrict__ v, const float *__restrict__ stress, int planes,
                            int plane)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    for (int p = 0; p < planes; ++p, at += plane) {
        u[at] = stress[at] - stress[at + 1];
        v[at] = stress[at + plane] - stress[at];
    }
}

// A row is filled where the first neighbour is found, once in a long search, by the few lanes that find one there.
__global__ void neighbours(const float *x, const float *y, int *found, int points, int most, float reach)
{
    int own = blockIdx.x * blockDim.x + threadIdx.x, count = 0;
    for (int k = 0; k < points; ++k) {
        float dx = x[own] - x[k], dy = y[own] - y[k];
        if (dx * dx + dy * dy < reach) {
            if (count == 0)
                for (int l = 0; l < most; ++l)
                    found[own * most + l] = k;  // told: uncoalesced-global-write information
            found[own * most + count++] = k;
        }
    }
}

// One block walks all of an item, and only the run knows how many items there are.
__global__ void rows_of_items(float *out, const float *in, int rows, int columns)
{
    for (int r = 0; r < rows; ++r)
        for (int c = threadIdx.x; c < columns; c += blockDim.x)
            out[(blockIdx.x * rows + r) * columns + c] = sqrtf(in[(blockIdx.x * rows + r) * columns + c]);
}

// Each output sums its neighbours anew, from the L1.
__global__ void moving_sum(float *out, const float *in, int taps, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < taps; ++t) sum += __ldg(&in[i + t]);  // told: missing-cache-reuse information
    out[i] = sum;
}

void launched(float *out, const float *in, const float *other, int *found, int items, int n)
{
    rows_of_items<<<items, 256>>>(out, in, 64, 1024);  // told: grid-too-small information
    neighbours<<<4096, 256>>>(in, other, found, n, 32, 1.0f);
    moving_sum<<<n / 256, 256>>>(out, in, 64, n);
}
