// Gravitational potential at every body of a cluster, by direct summation with softening, in single precision.
#include <cmath>
#include <cstdio>
#include <vector>

__global__ void potential(const float4 *__restrict__ body, float *__restrict__ phi, int count)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;

    const float4 me = body[i];
    float sum = 0;
    for (int j = 0; j < count; ++j) {
        const float4 other = body[j];
        const float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
        const float r2 = dx * dx + dy * dy + dz * dz;
        sum += other.w * (1.0 / sqrt(r2 + 0.0025));
    }
    phi[i] = -0.5 * sum * me.w;
}

int main()
{
    const int count = 12288;
    std::vector<float4> body(count);
    unsigned state = 88172645u;
    auto uniform = [&] {
        state ^= state << 13, state ^= state >> 17, state ^= state << 5;
        return state / 4294967296.0f;
    };
    for (float4 &b : body) b = make_float4(uniform() - 0.5f, uniform() - 0.5f, uniform() - 0.5f, 0.5f + uniform());

    float4 *d_body;
    float *d_phi;
    cudaMalloc(&d_body, count * sizeof(float4));
    cudaMalloc(&d_phi, count * sizeof(float));
    cudaMemcpy(d_body, body.data(), count * sizeof(float4), cudaMemcpyHostToDevice);

    for (int step = 0; step < 200; ++step) potential<<<(count + 255) / 256, 256>>>(d_body, d_phi, count);

    std::vector<float> phi(count);
    if (cudaMemcpy(phi.data(), d_phi, count * sizeof(float), cudaMemcpyDeviceToHost) != cudaSuccess) return 2;
    int wrong = 0;
    for (int i = 0; i < count; i += 401) {
        double sum = 0;
        for (const float4 &b : body) {
            const double dx = body[i].x - b.x, dy = body[i].y - b.y, dz = body[i].z - b.z;
            sum += b.w / std::sqrt(dx * dx + dy * dy + dz * dz + 0.0025);
        }
        const double expected = -0.5 * sum * body[i].w;
        wrong += !(std::fabs(phi[i] - expected) <= 1e-4 * std::fabs(expected));
    }
    std::printf("potentials: %d of the sample wrong\n", wrong);
    return wrong != 0;
}
