// Film look: exposure, then a tone curve by table, channel by channel of 8-bit pixels.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int kPixels = 1 << 25;

__constant__ float tone[256];

struct Exposure {
    float gain;
    __device__ float operator()(float v) const { return v * gain; }
};
struct ToneCurve {
    __device__ float operator()(unsigned char v) const { return tone[v]; }
};
template <class First, class Then>
struct Chain {
    First first;
    Then then;
    __device__ float operator()(unsigned char v) const { return then(first(v)); }
};

// class: memory
template <class Look>
__global__ void develop(uchar4 *__restrict__ out, const uchar4 *__restrict__ in, Look look)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const uchar4 p = in[i];
    auto byte = [&](unsigned char v) { return static_cast<unsigned char>(fminf(look(v), 255.0f)); };
    out[i] = make_uchar4(byte(p.x), byte(p.y), byte(p.z), p.w);  // expect: divergent-constant-access
}

int main()
{
    std::vector<uchar4> in(kPixels), out(kPixels);
    std::vector<float> curve(256);
    for (int v = 0; v < 256; ++v) curve[v] = 255.0f * sqrtf(v / 255.0f);
    for (int i = 0; i < kPixels; ++i) in[i] = make_uchar4(i % 251, i / 3 % 241, i / 7 % 239, 255);
    uchar4 *d_in, *d_out;
    cudaMalloc(&d_in, kPixels * sizeof(uchar4));
    cudaMalloc(&d_out, kPixels * sizeof(uchar4));
    cudaMemcpy(d_in, in.data(), kPixels * sizeof(uchar4), cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(tone, curve.data(), 256 * sizeof(float));
    for (int repeat = 0; repeat < 5; ++repeat)
        develop<<<kPixels / 256, 256>>>(d_out, d_in, Chain<ToneCurve, Exposure>{{}, {0.9f}});
    cudaMemcpy(out.data(), d_out, kPixels * sizeof(uchar4), cudaMemcpyDeviceToHost);
    for (int i = 0; i < kPixels; i += 99991) {
        int want = int(0.9f * curve[in[i].x]);
        if (abs(out[i].x - want) > 1) return printf("pixel %d is %d, not %d\n", i, out[i].x, want), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
