// Arrays that come in a struct, and element types that a template leaves open.
struct Csr {
    int rows;
    const int *starts, *columns;
    const float *values;
};

__global__ void multiply(Csr matrix, const float *__restrict__ x, float *__restrict__ y)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= matrix.rows) return;
    float sum = 0.0f;
    for (int k = matrix.starts[row]; k < matrix.starts[row + 1]; ++k)  // expect: uneven-loops
        sum += matrix.values[k] * x[matrix.columns[k]];  // expect: per-thread-chunks, expect: indirect-access
    y[row] = sum;
}

template <typename T>
struct Image {
    T *pixels;
    int pitch;
};

__global__ void darken(Image<const float> from, Image<float> to, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < width) to.pixels[y * to.pitch + x] = 0.5f * from.pixels[y * from.pitch + x];
}

// Where a member is set anew, what it points to is not known; SASS shows how far the lanes are apart all the same.
__global__ void halves(Image<float> image, float *other, int n, int which)
{
    if (which) image.pixels = other;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) image.pixels[i * image.pitch + blockIdx.y] *= 0.5f;  // expect: uncoalesced-global-read
}

template <class T>
__global__ void sums_of_rows(const T *__restrict__ in, T *__restrict__ out, int rows, int columns)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const T *line = in + static_cast<long>(row) * columns;
    T sum = T(0);
    for (int c = 0; c < columns; ++c) sum += line[c];  // expect: uncoalesced-global-read
    out[row] = sum;
}

void run(Csr matrix, const float *x, float *y, Image<float> to)
{
    multiply<<<(matrix.rows + 255) / 256, 256>>>(matrix, x, y);
    darken<<<dim3(16, 1080), 256>>>({x, 4096}, to, 4000);
    halves<<<dim3(640, 16), 256>>>(to, y, 163840, 0);
    sums_of_rows<<<640, 256>>>(x, y, 163840, 1000);
}
