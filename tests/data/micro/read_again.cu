// Elements that a thread reads again, beside twins that keep them. A mark names what is expected on its line.

__global__ void nearest_of(int *__restrict__ out, const float *__restrict__ objects, const float *__restrict__ centres,
                           int n, int clusters, int coordinates)
{
    int own = blockIdx.x * blockDim.x + threadIdx.x, best = 0;
    float least = 1e30f;
    for (int i = 0; i < clusters; ++i) {
        float distance = 0.0f;
        for (int j = 0; j < coordinates; ++j) {
            float apart = objects[j * n + own]  // expect: elements-read-again
                          - centres[i * n + j * gridDim.x + own];
            distance += apart * apart;
        }
        if (distance < least) least = distance, best = i;
    }
    out[own] = best;
}

// The elements stay in registers over the outer loop.
__global__ void nearest_kept(int *__restrict__ out, const float *__restrict__ objects,
                             const float *__restrict__ centres, int n, int clusters)
{
    int own = blockIdx.x * blockDim.x + threadIdx.x, best = 0;
    float least = 1e30f, kept[4];
    for (int j = 0; j < 4; ++j) kept[j] = objects[j * n + own];
    for (int i = 0; i < clusters; ++i) {
        float distance = 0.0f;
        for (int j = 0; j < 4; ++j) {
            float apart = kept[j] - centres[i * n + j * gridDim.x + own];
            distance += apart * apart;
        }
        if (distance < least) least = distance, best = i;
    }
    out[own] = best;
}

// A row in two passes, by threads that have the same elements in both.
__global__ void scaled_rows(float *__restrict__ out, const float *__restrict__ in, int rows, int columns)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float top = 0.0f;
    for (int k = 0; k < columns; ++k) top = fmaxf(top, in[k * rows + row]);
    for (int j = 0; j < columns; ++j) out[j * rows + row] = in[j * rows + row] / top;  // expect: elements-read-again
}

// The second loop goes through other elements.
__global__ void two_rows(float *__restrict__ out, const float *__restrict__ in, int rows, int columns)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float top = 0.0f;
    for (int k = 0; k < columns; ++k) top = fmaxf(top, in[k * rows + row]);
    for (int j = 0; j < columns; ++j) out[j * rows + row] = in[(columns + j) * rows + row] / top;
}

void run(float *out, const float *in, int *best, int n, int m)
{
    nearest_of<<<n / 256, 256>>>(best, in, in + n, n, m, m);
    nearest_kept<<<n / 256, 256>>>(best, in, in + n, n, m);
    scaled_rows<<<n / 256, 256>>>(out, in, n, m);
    two_rows<<<n / 256, 256>>>(out, in, n, m);
}

// Sums of a warp's row in shared memory, a read and a write for each of its neighbours.
__global__ void gathered(float *__restrict__ out, const float *__restrict__ in, const int *__restrict__ ids, int n, int d)
{
    extern __shared__ float sums[];
    int row = blockIdx.x;
    for (int j = 0; j < n; ++j)
        for (int k = threadIdx.x; k < d; k += blockDim.x)
            sums[k] += in[ids[row * n + j] * d + k];  // expect: elements-read-again, hint: one-load-in-flight
    for (int k = threadIdx.x; k < d; k += blockDim.x) out[row * d + k] = sums[k];
}

// The sum of an element goes through its neighbours in a register.
__global__ void gathered_by_element(float *__restrict__ out, const float *__restrict__ in, const int *__restrict__ ids,
                                    int n, int d)
{
    int row = blockIdx.x, k = threadIdx.x;
    float sum = 0.0f;
    for (int j = 0; j < n; ++j) sum += in[ids[row * n + j] * d + k];
    out[row * d + k] = sum;
}
