// Smoothed density at every particle of a box, by the plain sum over all pairs; the block is small, as it
// was chosen years ago for another card.
#include <cmath>
#include <cstdio>
#include <vector>

__global__ void density(const float4 *particle, const float *kernel_width, float *density, int count)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;

    const float4 me = particle[i];
    density[i] = 0;
    for (int j = 0; j < count; ++j) {
        const float4 other = particle[j];
        const float dx = me.x - other.x, dy = me.y - other.y, dz = me.z - other.z;
        const float q = (dx * dx + dy * dy + dz * dz) * kernel_width[0];
        density[i] += other.w * fmaxf(1.0f - q, 0.0f);
    }
}

int main()
{
    const int count = 16384;
    std::vector<float4> particle(count);
    unsigned state = 2463534242u;
    auto uniform = [&] {
        state ^= state << 13, state ^= state >> 17, state ^= state << 5;
        return state / 4294967296.0f;
    };
    for (float4 &p : particle) p = make_float4(uniform(), uniform(), uniform(), 0.5f + uniform());
    const float width = 64.0f;

    float4 *d_particle;
    float *d_width, *d_density;
    cudaMalloc(&d_particle, count * sizeof(float4));
    cudaMalloc(&d_width, sizeof(float));
    cudaMalloc(&d_density, count * sizeof(float));
    cudaMemcpy(d_particle, particle.data(), count * sizeof(float4), cudaMemcpyHostToDevice);
    cudaMemcpy(d_width, &width, sizeof(float), cudaMemcpyHostToDevice);

    const int threads = 32;
    for (int step = 0; step < 200; ++step)
        density<<<(count + threads - 1) / threads, threads>>>(d_particle, d_width, d_density, count);

    std::vector<float> result(count);
    if (cudaMemcpy(result.data(), d_density, count * sizeof(float), cudaMemcpyDeviceToHost) != cudaSuccess) return 2;
    int wrong = 0;
    for (int i = 0; i < count; i += 509) {
        double sum = 0;
        for (const float4 &p : particle) {
            const double dx = particle[i].x - p.x, dy = particle[i].y - p.y, dz = particle[i].z - p.z;
            sum += p.w * std::fmax(1.0 - (dx * dx + dy * dy + dz * dz) * width, 0.0);
        }
        wrong += !(std::fabs(result[i] - sum) <= 1e-4 * sum);
    }
    std::printf("densities: %d of the sample wrong\n", wrong);
    return wrong != 0;
}
