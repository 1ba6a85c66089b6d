// SPDX-License-Identifier: Apache-2.0
// Who comes to an access, and how often: a wall, a halo, a last step, what data lets through; beside each the same
// access that all lanes make.
#include <cuda_runtime.h>

__global__ void halo_rows(const float *field, float *sums, int width) {
    __shared__ float tile[9][8];
    int x = blockIdx.x * 8 + threadIdx.x + 4, y = blockIdx.y * 8 + threadIdx.y + 1;
    tile[threadIdx.y + 1][threadIdx.x] = field[y * width + x];
    if (threadIdx.y == 0) tile[0][threadIdx.x] = field[(y - 1) * width + x];
    __syncthreads();
    sums[y * width + x] = tile[threadIdx.y][threadIdx.x] + tile[threadIdx.y + 1][threadIdx.x];
}

__global__ void left_wall(double *cells, int width, int count, double speed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int x = i % width, y = i / width;
    if (x == 0)
        for (int q = 0; q < 9; ++q) cells[i * 9 + q] = speed * q;
    if (y == 0)
        for (int q = 0; q < 9; ++q) cells[i * 9 + q] = -speed * q;
}

__global__ void all_cells(double *cells, int width, int count, double speed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    for (int q = 0; q < 9; ++q) cells[i * 9 + q] = speed * q;  // told: per-thread-chunks warning
}

__global__ void last_step(float *grads, const int *lengths, int steps) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int last = lengths[blockIdx.y] - 1;
    if (t > last) return;
    if (t == last) {
        for (int u = 0; u < steps; ++u) grads[(lengths[u] + t * steps + u) << 1] = 0.0f;
        return;
    }
    grads[blockIdx.y * last + t] = 1.0f;
}

__global__ void every_step(float *grads, const int *lengths, int steps) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t > lengths[blockIdx.y] - 1) return;
    for (int u = 0; u < steps; ++u) grads[t * steps + u] = 0.0f;  // told: uncoalesced-global-write warning
}

void run(const float *field, float *sums, double *cells, const int *lengths, int width, int count) {
    halo_rows<<<dim3(512, 512), dim3(8, 8)>>>(field, sums, width);
    left_wall<<<4096, 256>>>(cells, width, count, 0.5);
    all_cells<<<4096, 256>>>(cells, width, count, 0.5);
    last_step<<<dim3(64, 64), 256>>>(sums, lengths, width);
    every_step<<<dim3(64, 64), 256>>>(sums, lengths, width);
}

// A tile of elements for each thread, whose side is passed: lanes are a tile apart.
__global__ void tile_a_thread(float *to, const float *from, int n, int side) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < side * side; ++k) {
        int y = row * side + k / side, x = column * side + k % side;
        if (y < n && x < n) to[y * n + x] = 2.0f * from[y * n + x];  // told: uncoalesced-global-write information
    }
}
