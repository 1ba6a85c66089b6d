// A problem that threads share out: how long a share is only the launch knows, never the file.
#include <cstdint>

using Sample = uint32_t;

struct Series {
    const Sample *in;
    Sample *out;
    int n;
};

__global__ void in_shares(Series s, Sample by)
{
    const int worker = blockIdx.x * blockDim.x + threadIdx.x;
    const int workers = gridDim.x * blockDim.x;
    const int share = (s.n + workers - 1) / workers;
    const int last = min((worker + 1) * share, s.n);
    for (int i = worker * share; i < last; ++i) {
        s.out[i] = s.in[i] * by + 1u; // expect: per-thread-chunks, hint: aliasing-reload
    }
}

__global__ void from_a_pointer(const float *in, float *out, int n)
{
    const int per = n / (gridDim.x * blockDim.x);
    const float *mine = in + (size_t)(blockIdx.x * blockDim.x + threadIdx.x) * per;
    float sum = 0.0f;
    for (int k = 0; k < per; ++k) sum += mine[k]; // expect: per-thread-chunks
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__global__ void in_turn(Series s, Sample by)
{
    const int workers = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < s.n; i += workers) s.out[i] = s.in[i] * by + 1u;  // hint: aliasing-reload
}

int main()
{
    Series s{nullptr, nullptr, 48'000'000};
    in_shares<<<1056, 256>>>(s, 3);
    from_a_pointer<<<1056, 256>>>(nullptr, nullptr, 1 << 28);
    in_turn<<<1056, 256>>>(s, 3);
}
