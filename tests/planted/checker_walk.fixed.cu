// Counts the odd cells of a checkerboard that strided walks meet; the extents are fixed when it is built.
#include <cstdio>
#include <cstdlib>
#include <vector>

// class: compute
template <unsigned width, unsigned height>
__global__ void checker_counts(unsigned *__restrict__ counts, int cells, int steps)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= cells) return;
    unsigned total = 0, cell = column;
    for (int step = 0; step < steps; ++step) {
        unsigned x = cell % width, y = cell / width % height;
        total += (x ^ y) & 1u;
        cell += 977u * step + 1u;
    }
    counts[column] = total;
}

int main(int argc, char **argv)
{
    constexpr unsigned width = 1000, height = 600;
    int cells = argc > 1 ? atoi(argv[1]) : 1 << 20, steps = argc > 2 ? atoi(argv[2]) : 64;
    unsigned *counts;
    cudaMalloc(&counts, cells * sizeof(unsigned));
    for (int repeat = 0; repeat < 5; ++repeat)
        checker_counts<width, height><<<(cells + 255) / 256, 256>>>(counts, cells, steps);
    std::vector<unsigned> got(cells);
    cudaMemcpy(got.data(), counts, cells * sizeof(unsigned), cudaMemcpyDeviceToHost);
    for (int c = 0; c < cells; c += 997) {
        unsigned want = 0, cell = c;
        for (int s = 0; s < steps; ++s) {
            want += (cell % width ^ cell / width % height) & 1u;
            cell += 977u * s + 1u;
        }
        if (got[c] != want) return printf("cell %d: %u, not %u\n", c, got[c], want), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
