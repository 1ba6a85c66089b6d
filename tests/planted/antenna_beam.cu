// The beam of an antenna array: at each direction the waves of all elements are added up, each with its phase.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kDirections = 1 << 20;

// class: compute
__global__ void beam(float2 *field, const float *direction, const float *place, int elements)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kDirections) return;
    float u = direction[i], re = 0.0f, im = 0.0f;
    for (int e = 0; e < elements; ++e) {
        float half_turns = place[e] * u;
        re += cospif(half_turns);  // expect: sine-and-cosine
        im += sinpif(half_turns);
    }
    field[i] = make_float2(re, im);
}

int main(int argc, char **argv)
{
    int elements = argc > 1 ? atoi(argv[1]) : 64;
    std::vector<float> direction(kDirections), place(elements);
    std::vector<float2> got(kDirections);
    for (int i = 0; i < kDirections; ++i) direction[i] = 0.000002f * (i - kDirections / 2);
    for (int e = 0; e < elements; ++e) place[e] = 1.0f * e;
    float *from, *where;
    float2 *to;
    cudaMalloc(&from, kDirections * sizeof(float));
    cudaMalloc(&where, elements * sizeof(float));
    cudaMalloc(&to, kDirections * sizeof(float2));
    cudaMemcpy(from, direction.data(), kDirections * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(where, place.data(), elements * sizeof(float), cudaMemcpyHostToDevice);
    beam<<<(kDirections + 255) / 256, 256>>>(to, from, where, elements);
    cudaMemcpy(got.data(), to, kDirections * sizeof(float2), cudaMemcpyDeviceToHost);
    for (int i = 0; i < kDirections; i += 997) {
        double re = 0.0, im = 0.0;
        for (int e = 0; e < elements; ++e) {
            double phase = 3.14159265358979 * (place[e] * direction[i]);
            re += std::cos(phase), im += std::sin(phase);
        }
        if (std::fabs(got[i].x - re) + std::fabs(got[i].y - im) > 1e-5 * elements)
            return printf("direction %d: %g %g, not %g %g\n", i, got[i].x, got[i].y, re, im), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
