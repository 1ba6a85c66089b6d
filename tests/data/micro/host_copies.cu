// Copies of pageable memory and of parts on one stream, and ones that are as they should be.
#include <cstdlib>
#include <vector>

constexpr int kPart = 1 << 20;

__global__ void pageable(float *__restrict__ out, const float *__restrict__ in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] * 0.5f;
}

__global__ void pinned(float *__restrict__ out, const float *__restrict__ in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] * 0.5f;
}

__global__ void one_stream(float *__restrict__ out, const float *__restrict__ in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] * 0.5f;
}

__global__ void two_streams(float *__restrict__ out, const float *__restrict__ in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] * 0.5f;
}

__global__ void set_up_once(float *__restrict__ out, const float *__restrict__ in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] * 0.5f;
}

void frames(float *out, float *in, int count, cudaStream_t *streams)
{
    float *frame = static_cast<float *>(malloc(kPart * sizeof(float)));
    for (int f = 0; f < count; ++f) {
        frame[0] = f;
        cudaMemcpyAsync(in, frame, kPart * sizeof(float), cudaMemcpyHostToDevice, streams[f % 2]);  // expect: pageable-transfer
        pageable<<<kPart / 256, 256, 0, streams[f % 2]>>>(out, in);
    }
    float *locked;
    cudaHostAlloc(&locked, kPart * sizeof(float), 0);
    for (int f = 0; f < count; ++f) {
        locked[0] = f;
        cudaMemcpyAsync(in, locked, kPart * sizeof(float), cudaMemcpyHostToDevice, streams[f % 2]);
        pinned<<<kPart / 256, 256, 0, streams[f % 2]>>>(out, in);
    }
}

void parts(float *out, float *in, float *locked, int count, cudaStream_t stream, cudaStream_t *streams)
{
    for (int p = 0; p < count; ++p) {
        float *part = locked + size_t(p) * kPart;
        cudaMemcpyAsync(in, part, kPart * sizeof(float), cudaMemcpyHostToDevice, stream);  // expect: serial-copies
        one_stream<<<kPart / 256, 256, 0, stream>>>(out, in);
        cudaMemcpyAsync(part, out, kPart * sizeof(float), cudaMemcpyDeviceToHost, stream);
    }
    for (int p = 0; p < count; ++p) {
        cudaStream_t mine = streams[p % 3];
        float *part = locked + size_t(p) * kPart;
        cudaMemcpyAsync(in, part, kPart * sizeof(float), cudaMemcpyHostToDevice, mine);
        two_streams<<<kPart / 256, 256, 0, mine>>>(out, in);
        cudaMemcpyAsync(part, out, kPart * sizeof(float), cudaMemcpyDeviceToHost, mine);
    }
    std::vector<float> values(kPart);
    cudaMemcpy(in, values.data(), kPart * sizeof(float), cudaMemcpyHostToDevice);
    for (int p = 0; p < count; ++p) set_up_once<<<kPart / 256, 256>>>(out, in);
    cudaMemcpy(values.data(), out, kPart * sizeof(float), cudaMemcpyDeviceToHost);
}
