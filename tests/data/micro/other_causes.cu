// Kernels that look like a cause whose cure would not serve them.
#include <cmath>

// Four counters of each block's own, whose counts are places.
__global__ void placed_by_digit(const int *keys, int *sorted, int *next, int n, int pass)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int digit = (keys[i] >> (2 * pass)) & 3;
        int at = atomicAdd(&next[digit * gridDim.x + blockIdx.x], 1);  // expect: updates-by-data
        sorted[at] = keys[i];  // expect: indirect-access
    }
}

// Places of the whole grid's counters.
__global__ void placed_in_buckets(const unsigned *keys, unsigned *out, unsigned *filled, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned bucket = keys[i] & 63;
        unsigned at = atomicAdd(&filled[bucket], 1u);  // expect: global-atomic-contention
        if (at < 4096) out[bucket * 4096 + at] = keys[i];  // expect: indirect-access
    }
}

// Multiples, each lane by steps of its own.
__global__ void crossed_out(size_t first, size_t n, bool *composite)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x + first;
    for (size_t j = i; i + j + 2 * i * j <= n; j++) composite[i + j + 2 * i * j - 1] = true;
}

__global__ void squares_marked(size_t n, bool *marked)
{
    size_t x = (size_t)blockIdx.x * blockDim.x + threadIdx.x + 1;
    if (x * x <= n) {
        for (size_t y = 1; y * y <= n; y++) {
            size_t z = 4 * x * x + y * y;
            if (z <= n && z % 12 == 1) marked[z - 1] = !marked[z - 1];  // expect: scalar-access
        }
    }
}

// Slices of a warp, side by side from one start.
__global__ void slices(const int *row, const short *width, const int *start, const int *column, const double *value,
                       const double *x, double *y, int n)
{
    unsigned i = blockDim.x * blockIdx.x + threadIdx.x;
    unsigned warp = i >> 5, lane = threadIdx.x - ((threadIdx.x >> 5) << 5);
    if (i < n) {
        int bias = start[warp], at;
        double sum = 0;
        for (int k = 0; k < width[warp]; ++k) {
            at = bias + lane + warpSize * k;
            sum += value[at] * x[column[at]];  // expect: indirect-access
        }
        y[row[i]] += sum;
    }
}

// A bound behind a pointer.
__global__ void bounded(const float *in, float *out, const int *count)
{
    if (blockDim.x * blockIdx.x + threadIdx.x >= (*count)) {
        out[blockDim.x * blockIdx.x + threadIdx.x] = 0.0f;
    } else {
        float v = in[blockDim.x * blockIdx.x + threadIdx.x];
        for (int k = 0; k < 40; ++k) v = sqrtf(v) * 1.5f + expf(v);  // expect: library-functions
        out[blockDim.x * blockIdx.x + threadIdx.x] = v;
    }
}

// Values of a tile whose rows the block's y chooses.
__global__ void angles(const float *in, float *out, int w, int h)
{
    __shared__ float tile[32][32];
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = column < w && row < h ? in[row * w + column] : 0.0f;
    __syncthreads();
    float a = tile[threadIdx.y][(threadIdx.x + 1) & 31], b = tile[(threadIdx.y + 1) & 31][threadIdx.x];
    float angle = atan2f(a, b) + powf(a, b);  // expect: library-functions
    if (column < w && row < h) out[row * w + column] = angle;
}

// Empty clusters are few.
__global__ void means(float *sums, const int *members, int clusters, int dimensions)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < clusters) {
        if (members[c] > 0) {
            for (int d = 0; d < dimensions; ++d) sums[d * clusters + c] /= members[c];  // hint: aliasing-reload, expect: full-divisions
        }
    }
}

// A pass of a radix sort by one bit.
__global__ void parted(const unsigned *keys, unsigned *sorted, const unsigned *ones, unsigned zeros, int n, int bit)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned key = keys[i];
        unsigned before = ones[i];
        unsigned at;
        if (key >> bit & 1) at = zeros + before;
        else at = i - before;
        sorted[at] = key;  // expect: indirect-access
    }
}

// Two halves of a row, which lanes in turn go through.
template <int WIDTH>
__global__ void halves(const float *in, float *out, int rows)
{
    __shared__ float tile[32][WIDTH];
    int half = threadIdx.x % 2 * (WIDTH / 2);
    for (int i = threadIdx.x; i < 32 * WIDTH; i += 128) tile[i / WIDTH][i % WIDTH] = in[i];
    __syncthreads();
    float sum = 0.0f;
    for (int j = 0; j < rows; j++)
        for (int c = 0; c < WIDTH / 2; c++) sum += tile[j][half + c] * (float)(threadIdx.x + c);  // expect: shared-bank-conflicts
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

int main()
{
    int *k = nullptr;
    float *f = nullptr;
    double *d = nullptr;
    bool *b = nullptr;
    const int n = 1 << 24;
    for (int pass = 0; pass < 16; ++pass) {
        placed_by_digit<<<n / 256, 256>>>(k, k + n, k, n, pass);
        placed_in_buckets<<<n / 256, 256>>>((unsigned *)k, (unsigned *)k, (unsigned *)k, n);
        means<<<n / 256, 256>>>(f, k, n, 16);  // expect: pass-per-step
    }
    crossed_out<<<4096, 256>>>(1, n, b);
    squares_marked<<<4096, 256>>>(n, b);
    slices<<<n / 256, 256>>>(k, (short *)k, k, k, d, d, d, n);
    bounded<<<n / 256, 256>>>(f, f, k);
    unsigned *from = nullptr, *to = nullptr, *kept;
    for (int bit = 0; bit < 32; ++bit) {
        parted<<<n / 256, 256>>>(from, to, to + n, n / 2, n, bit);
        kept = from;
        from = to;
        to = kept;
    }
    halves<64><<<4096, 128>>>(f, f, 32);
    halves<128><<<4096, 128>>>(f, f, 32);
    angles<<<dim3(128, 128), dim3(32, 32)>>>(f, f, 4096, 4096);
}
