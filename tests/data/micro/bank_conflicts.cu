// Shared tiles read by column. A mark names what is expected on its line.
#define TILE 32

__global__ void column_of_a_square_tile(float *out, const float *in, int n)
{
    __shared__ float tile[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    tile[ty][tx] = in[(blockIdx.y * TILE + ty) * n + blockIdx.x * TILE + tx];
    __syncthreads();
    out[(blockIdx.x * TILE + ty) * n + blockIdx.y * TILE + tx] = tile[tx][ty];  // expect: shared-bank-conflicts
}

__global__ void padded_tile(float *out, const float *in, int n)
{
    __shared__ float tile[TILE][TILE + 1];
    int tx = threadIdx.x, ty = threadIdx.y;
    tile[ty][tx] = in[(blockIdx.y * TILE + ty) * n + blockIdx.x * TILE + tx];
    __syncthreads();
    out[(blockIdx.x * TILE + ty) * n + blockIdx.y * TILE + tx] = tile[tx][ty];
}

__global__ void column_of_doubles(double *out, const double *in)
{
    __shared__ double rows[32 * 32];
    for (int r = 0; r < 32; ++r) rows[r * 32 + threadIdx.x] = in[r * 32 + threadIdx.x];
    __syncthreads();
    double sum = 0;
    for (int c = 0; c < 32; ++c) sum += rows[threadIdx.x * 32 + c];  // expect: shared-bank-conflicts
    out[blockIdx.x * 32 + threadIdx.x] = sum;
}

__global__ void row_sums_in_order(float *out, const float *in)
{
    __shared__ float rows[32][32];
    for (int r = 0; r < 32; ++r) rows[r][threadIdx.x] = in[r * 32 + threadIdx.x];
    __syncthreads();
    float sum = 0;
    for (int r = 0; r < 32; ++r) sum += rows[r][threadIdx.x];
    out[blockIdx.x * 32 + threadIdx.x] = sum;
}

__global__ void everyone_reads_the_same_word(float *out, const float *in)
{
    __shared__ float table[64];
    if (threadIdx.x < 64) table[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 64; ++i) sum += table[i] * (threadIdx.x + i);
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__global__ void swizzled(float *out, const float *in, int n)
{
    __shared__ float tile[32][32];
    int tx = threadIdx.x, ty = threadIdx.y;
    tile[ty][tx ^ ty] = in[(blockIdx.y * 32 + ty) * n + blockIdx.x * 32 + tx];
    __syncthreads();
    out[(blockIdx.x * 32 + ty) * n + blockIdx.y * 32 + tx] = tile[tx][ty ^ tx];
}

__global__ void a_block_of_sixteen_by_sixteen(float *out, const float *in, int n)
{
    __shared__ float tile[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    tile[ty][tx] = in[(blockIdx.y * 16 + ty) * n + blockIdx.x * 16 + tx];
    __syncthreads();
    out[(blockIdx.x * 16 + ty) * n + blockIdx.y * 16 + tx] = tile[tx][ty];  // expect: shared-bank-conflicts
}

// The padding that rids a column of its conflicts gives the two rows of a warp one in the stores.
__global__ void padded_in_blocks_of_sixteen(float *out, const float *rows, const float *columns, int n)
{
    __shared__ float left[16][16], right[16][17];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + ty;
    float sum = 0.0f;
    for (int k = 0; k < n; k += 16) {
        if (row < n && k + tx < n) left[ty][tx] = rows[row * n + k + tx];  // hint: unoverlapped-copy
        else left[ty][tx] = 0.0f;
        if (column < n && k + tx < n) right[ty][tx] = columns[column * n + k + tx];  // expect: shared-bank-conflicts
        else right[ty][tx] = 0.0f;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += left[ty][i] * right[tx][i];  // expect: small-register-tile
        __syncthreads();
    }
    out[row * n + blockIdx.x * 16 + tx] = sum;
}

void launch(float *out, const float *in, double *dout, const double *din, int n, cudaStream_t stream)
{
    dim3 grid(n / TILE, n / TILE), block(TILE, TILE);
    column_of_a_square_tile<<<grid, block, 0, stream>>>(out, in, n);
    padded_tile<<<grid, block, 0, stream>>>(out, in, n);
    swizzled<<<grid, block, 0, stream>>>(out, in, n);
    column_of_doubles<<<n / 32, 32>>>(dout, din);
    row_sums_in_order<<<n / 32, 32>>>(out, in);  // expect: occupancy-block-size
    everyone_reads_the_same_word<<<n / 256, 256>>>(out, in);
    a_block_of_sixteen_by_sixteen<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(out, in, n);
    padded_in_blocks_of_sixteen<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(out, in, in, n);
}
