// Distances between lanes that only a launch knows, and records of which all bytes are used: seen in SASS alone.
struct Tensor {
    float *data;
    long outer, inner;
    __device__ float &at(long i, long j) const { return data[i * outer + j * inner]; }
    __device__ float &row(long i, long j) const { return data[i * outer + j]; }
};

// The innermost stride is 1 of every tensor that was not transposed.
__global__ void brightened(Tensor from, Tensor to, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < n) to.at(blockIdx.y, j) = 1.5f * from.at(blockIdx.y, j);  // expect: scalar-access
}

// What goes along the row says that lanes are a row apart.
__global__ void sums(Tensor from, float *__restrict__ to, int rows, int columns)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    float sum = 0.0f;
    for (int j = 0; j < columns; ++j) sum += from.row(i, j);  // expect: uncoalesced-global-read
    to[i] = sum;
}

// Nobody wants what lies beside a diagonal.
__global__ void traces(Tensor from, float *__restrict__ to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from.row(i, i);
}

struct Pairs {
    const float *data;
    __device__ const float *of(int i) const { return data + 2 * i; }
    __device__ const float *wide(int i) const { return data + 8 * i; }
};

// Both halves of a pair are used, by one thread and at once.
__global__ void lengths(Pairs from, float *__restrict__ to, const int *__restrict__ which, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *pair = from.of(i);
    float x = pair[0];
    if (which[i] > 0) x += pair[1];
    to[i] = x;
}

// One number of eight.
__global__ void firsts(Pairs from, float *__restrict__ to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from.wide(i)[0];  // expect: strided-field-access
}

// A few lanes of one warp write a row each, once a block.
__global__ void last(const float *__restrict__ from, Tensor to, int n)
{
    __shared__ float part[256];
    float sum = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * gridDim.x) sum += from[i];  // hint: one-load-in-flight
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < 7) to.row(threadIdx.x, blockIdx.x) = part[threadIdx.x] + part[threadIdx.x + 8];
}

void run(Tensor a, Tensor b, float *to, Pairs pairs, const int *which, int n)
{
    brightened<<<dim3(64, 512), 256>>>(a, b, n);
    sums<<<640, 256>>>(a, to, n, n);
    traces<<<640, 256>>>(a, to, n);
    lengths<<<6400, 256>>>(pairs, to, which, n);
    firsts<<<6400, 256>>>(pairs, to, n);
    last<<<1056, 256>>>(to, a, n);
}
