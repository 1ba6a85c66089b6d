// Arithmetic that one operation, or a reciprocal, would do; a product that reads both operands for every addition.

__global__ void bonds(float *energy, const float *distance, int n, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < 64; ++k)
        sum += powf(distance[i] + k, 12.0f);  // expect: constant-power
    energy[i] = sum;
}

__global__ void squares(float *energy, const float *distance, int n, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < 64; ++k)
        sum += (distance[i] + k) * (distance[i] + k);
    energy[i] = sum;
}

__global__ void scaled(float *out, const float *in, int n, int steps, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = in[i];
    for (int k = 0; k < steps; ++k)
        value = (value + k) / scale;  // expect: invariant-division
    out[i] = value;
}

__global__ void changing(float *out, const float *in, int n, int steps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = in[i], by = 3.0f;
    for (int k = 0; k < steps; ++k) {
        value = (value + k) / by;  // expect: full-divisions
        by += value;
    }
    out[i] = value;
}

constexpr int kSide = 16;

__global__ void product(float *c, const float *a, const float *b, int n)
{
    __shared__ float left[kSide][kSide], right[kSide][kSide];
    int row = blockIdx.y * kSide + threadIdx.y, column = blockIdx.x * kSide + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < n; t += kSide) {
        left[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];  // hint: unoverlapped-copy
        right[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < kSide; ++k)
            sum += left[threadIdx.y][k] * right[k][threadIdx.x];  // expect: small-register-tile
        __syncthreads();
    }
    c[row * n + column] = sum;
}

void run(float *c, const float *a, const float *b)
{
    bonds<<<4096, 256>>>(c, a, 1 << 20, 3.0f);
    squares<<<4096, 256>>>(c, a, 1 << 20, 3.0f);
    scaled<<<4096, 256>>>(c, a, 1 << 20, 100, 3.0f);
    changing<<<4096, 256>>>(c, a, 1 << 20, 100);
    product<<<dim3(128, 128), dim3(kSide, kSide)>>>(c, a, b, 2048);
}

__global__ void rotate(float *out, const float *in, int heads, int width)
{
    int position = blockIdx.x, head = blockIdx.y, i = threadIdx.x;
    float angle = position * powf(10000.0f, -2.0f * i / width);  // expect: repeated-work
    float c = cosf(angle), s = sinf(angle);
    int at = (position * heads + head) * width + i;
    out[at] = in[at] * c - in[at + width / 2] * s;
    out[at + width / 2] = in[at] * s + in[at + width / 2] * c;
}

__global__ void rotate_by_head(float *out, const float *in, int heads, int width)
{
    int position = blockIdx.x, head = blockIdx.y, i = threadIdx.x;
    float angle = (position + head) * powf(10000.0f, -2.0f * (i + head * position) / width);  // expect: library-functions
    float c = cosf(angle), s = sinf(angle);
    int at = (position * heads + head) * width + i;
    out[at] = in[at] * c - in[at + width / 2] * s;
    out[at + width / 2] = in[at] * s + in[at + width / 2] * c;
}

void turn(float *out, const float *in)
{
    rotate<<<dim3(4096, 32), 256>>>(out, in, 32, 512);
    rotate_by_head<<<dim3(4096, 32), 256>>>(out, in, 32, 512);
}
