// Sweeps over more than the L2 holds, in a function that goes through a row at a time.
__device__ float rowSum(const float4 *row, int n, float shift)
{
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256) {
        const float4 v = row[i];
        sum += fabsf(v.x - shift) + fabsf(v.y - shift) + fabsf(v.z - shift) + fabsf(v.w - shift);
    }
    return sum;
}

__global__ void sweep_by_sweep(const float4 *data, float *out, int rows, int n)
{
    float shift = 0.0f;
    for (int sweep = 0; sweep < 10; ++sweep)
        for (int r = blockIdx.x; r < rows; r += gridDim.x)
            shift = 0.5f * rowSum(data + (size_t)r * n, n, shift); // expect: l2-thrashing
    out[blockIdx.x * 256 + threadIdx.x] = shift;
}

__global__ void row_by_row(const float4 *data, float *out, int rows, int n)
{
    for (int r = blockIdx.x; r < rows; r += gridDim.x) {
        float shift = 0.0f;
        for (int sweep = 0; sweep < 10; ++sweep) shift = 0.5f * rowSum(data + (size_t)r * n, n, shift);
        out[r * 256 + threadIdx.x] = shift;
    }
}

int main()
{
    sweep_by_sweep<<<1056, 256>>>(nullptr, nullptr, 1 << 14, 2048);
    row_by_row<<<1056, 256>>>(nullptr, nullptr, 1 << 14, 2048);
}
