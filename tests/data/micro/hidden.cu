// Accesses that classes, calls and structs hide from the text: what SASS shows of them.
#include <cstddef>

struct Range {
    int begin, end;
};
struct Columns {
    const float *__restrict__ values;
    float *__restrict__ sums;
    int rows, columns;
};

__device__ Range share(int n)
{
    int threads = gridDim.x * blockDim.x, me = blockIdx.x * blockDim.x + threadIdx.x;
    int each = (n + threads - 1) / threads;
    return {me * each, min(n, (me + 1) * each)};
}

__global__ void own_stretch(float *__restrict__ partial, const float *__restrict__ values, int n)
{
    Range mine = share(n);
    float sum = 0.0f;
    for (int i = mine.begin; i < mine.end; ++i) sum += values[i] * values[i];  // expect: per-thread-chunks
    partial[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__global__ void pitched_rows(float *__restrict__ means, const float *__restrict__ image, size_t pitch, int width)
{
    int y = blockIdx.x * blockDim.x + threadIdx.x;
    const float *row = (const float *)((const char *)image + y * pitch);
    float sum = 0.0f;
    for (int x = 0; x < width; ++x) sum += row[x];  // expect: uncoalesced-global-read
    means[y] = sum / width;
}

__global__ void columns_in_a_struct(Columns c)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int row = 0; row < c.rows; ++row) sum += c.values[row * c.columns + column];
    c.sums[column] = sum;
}

__global__ void rows_in_a_struct(Columns c)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int column = 0; column < c.columns; ++column)
        sum += c.values[row * c.columns + column];  // expect: uncoalesced-global-read
    c.sums[row] = sum;
}

__constant__ float curve[256];
struct Tone {
    float gain;
    __device__ float operator()(unsigned char v) const { return gain * curve[v]; }
};
struct Level {
    int channel;
    __device__ float operator()(unsigned char v) const { return v * curve[channel]; }
};

template <class Map>
__global__ void map_pixels(float4 *__restrict__ out, const uchar4 *__restrict__ in, Map map)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uchar4 p = in[i];
    out[i] = make_float4(map(p.x), map(p.y), map(p.z), map(p.w));  // expect: divergent-constant-access
}

void run(float *out, const float *in, Columns c, float4 *pixels, const uchar4 *bytes, int n)
{
    own_stretch<<<528, 256>>>(out, in, n);
    pitched_rows<<<512, 128>>>(out, in, 16384, 4096);
    columns_in_a_struct<<<512, 256>>>(c);
    rows_in_a_struct<<<512, 256>>>(c);
    map_pixels<<<4096, 256>>>(pixels, bytes, Tone{1.5f});
}

template <class T>
struct Matrix {
    T *data;
    int rows, columns;
    __device__ T &at(int r, int c) const { return data[r * columns + c]; }
};

__global__ void product_of_views(Matrix<float> c, Matrix<const float> a, Matrix<const float> b)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < a.columns; ++k) sum += a.at(row, k) * b.at(k, column);  // expect: missing-cache-reuse
    c.at(row, column) = sum;
}

template <int R, int C>
struct Tile {
    float cells[R * C];
    __device__ float &operator()(int r, int c) { return cells[r * C + c]; }
};

template <class Cells>
__device__ void turn(Cells &tile, float *__restrict__ out, const float *__restrict__ in, int pitch)
{
    int x = threadIdx.x, y = threadIdx.y;
    for (int r = y; r < 32; r += 8) tile(r, x) = in[(blockIdx.y * 32 + r) * pitch + blockIdx.x * 32 + x];
    __syncthreads();
    for (int r = y; r < 32; r += 8)
        out[(blockIdx.x * 32 + r) * pitch + blockIdx.y * 32 + x] = tile(x, r);
}

__global__ void turn_in_conflict(float *__restrict__ out, const float *__restrict__ in, int pitch)
{
    __shared__ Tile<32, 32> tile;
    turn(tile, out, in, pitch);  // expect: shared-bank-conflicts
}

__global__ void turn_padded(float *__restrict__ out, const float *__restrict__ in, int pitch)
{
    __shared__ Tile<32, 33> tile;
    turn(tile, out, in, pitch);
}

void run_views(Matrix<float> c, Matrix<const float> a, Matrix<const float> b, float *out, const float *in)
{
    product_of_views<<<dim3(64, 256), dim3(32, 8)>>>(c, a, b);
    turn_in_conflict<<<dim3(64, 64), dim3(32, 8)>>>(out, in, 2048);
    turn_padded<<<dim3(64, 64), dim3(32, 8)>>>(out, in, 2048);
}
