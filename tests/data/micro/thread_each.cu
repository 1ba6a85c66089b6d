// Threads that walk loops within loops, one for each of a count that only the run knows. A mark names what is expected.

__global__ void sums_of_two(float *__restrict__ out, const float *__restrict__ in, int n, int m, int d)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float top = 0.0f;
    for (int j = 0; j < m; ++j) {
        float sum = 0.0f;
        for (int k = 0; k < d; ++k) sum += in[(j * d + k) * n + i];
        top = fmaxf(top, sum);
    }
    out[i] = top;
}

__global__ void sums_of_one(float *__restrict__ out, const float *__restrict__ in, int n, int d)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < d; ++k) sum += in[(blockIdx.y * d + k) * n + i];
    out[blockIdx.y * n + i] = sum;
}

// A column is gone through twice by its thread.
__global__ void normalised(float *__restrict__ out, const float *__restrict__ in, int rows, int columns)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    float sum = 0.0f;
    for (int row = 0; row < rows; ++row) sum += in[row * columns + column];
    float by = 1.0f / sum;
    for (int row = 0; row < rows; ++row) out[row * columns + column] = by * in[row * columns + column];  // expect: elements-read-again
}

void run(float *out, const float *in, int n, int m, int d)
{
    sums_of_two<<<(n + 255) / 256, 256>>>(out, in, n, m, d);  // expect: grid-too-small
    normalised<<<(n + 255) / 256, 256>>>(out, in, m, n);  // expect: grid-too-small
    sums_of_one<<<dim3((n + 255) / 256, m), 256>>>(out, in, n, d);
}
