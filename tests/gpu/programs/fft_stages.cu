// Radix-2 FFT of a batch of signals: one launch per stage, float2 in place, twiddles computed on the fly.
#include <cmath>
#include <cstdio>
#include <vector>

__global__ void butterfly(float2 *data, int half, int length, int batch) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= length / 2 * batch) return;
    const int signal = k / (length / 2), inside = k % (length / 2);
    const int group = inside / half, at = inside % half;
    float2 *low = data + signal * length + group * 2 * half + at, *high = low + half;
    float sine, cosine;
    sincosf(-3.14159265f * at / half, &sine, &cosine);
    const float2 a = *low, b = *high;
    const float2 turned = make_float2(b.x * cosine - b.y * sine, b.x * sine + b.y * cosine);
    *low = make_float2(a.x + turned.x, a.y + turned.y);
    *high = make_float2(a.x - turned.x, a.y - turned.y);
}

int main() {
    const int length = 1024, batch = 512;
    std::vector<float2> host(length * batch);
    for (int i = 0; i < length * batch; ++i) {
        int reversed = 0;
        for (int bit = 0; bit < 10; ++bit) reversed |= (i >> bit & 1) << (9 - bit);
        host[i] = make_float2(std::cos(6.2831853f * 5 * reversed / length), 0);
    }
    float2 *data;
    cudaMalloc(&data, host.size() * sizeof(float2));
    cudaMemcpy(data, host.data(), host.size() * sizeof(float2), cudaMemcpyHostToDevice);
    for (int half = 1; half < length; half *= 2) butterfly<<<length / 2 * batch / 256, 256>>>(data, half, length, batch);
    if (cudaMemcpy(host.data(), data, host.size() * sizeof(float2), cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("bin 5: %.2f\n", host[5].x);
    return std::fabs(host[5].x - length / 2) > 1;
}
