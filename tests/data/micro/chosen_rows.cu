// Rows that data chooses: behind a header, and side by side from the start.
struct Header {
    unsigned magic, rows, width, spare;
};

__global__ void behind_header(const unsigned char *file, const unsigned *ids, float4 *out, int count, int passes)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x, row = t / 4, part = t % 4;
    const float4 *rows = reinterpret_cast<const float4 *>(file + sizeof(Header));
    float4 sum = make_float4(0, 0, 0, 0);
    for (int p = 0; p < passes; ++p) {
        const unsigned id = ids[p * count + row];
        const float4 v = rows[size_t(id) * 4 + part]; // expect: misaligned-access
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    out[t] = sum;
}

__global__ void from_the_start(const float4 *rows, const unsigned *ids, float4 *out, int count, int passes)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x, row = t / 4, part = t % 4;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int p = 0; p < passes; ++p) {
        const float4 v = rows[size_t(ids[p * count + row]) * 4 + part];
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    out[t] = sum;
}

int main()
{
    behind_header<<<8192, 256>>>(nullptr, nullptr, nullptr, 1 << 19, 32);
    from_the_start<<<8192, 256>>>(nullptr, nullptr, nullptr, 1 << 19, 32);
}
