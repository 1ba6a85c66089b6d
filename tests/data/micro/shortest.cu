// SPDX-License-Identifier: Apache-2.0
// Products of tiles by sums and minima: one result a thread, and four.

__global__ void through(int *__restrict__ best, const int *__restrict__ left, const int *__restrict__ right, int n)
{
    __shared__ int rows[32][32], columns[32][32];
    int y = blockIdx.y * 32 + threadIdx.y, x = blockIdx.x * 32 + threadIdx.x;
    int shortest = best[y * n + x];
    for (int at = 0; at < n; at += 32) {
        rows[threadIdx.y][threadIdx.x] = left[y * n + at + threadIdx.x];  // hint: unoverlapped-copy
        columns[threadIdx.y][threadIdx.x] = right[(at + threadIdx.y) * n + x];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            int way = rows[threadIdx.y][k] + columns[k][threadIdx.x];  // expect: small-register-tile
            shortest = min(shortest, way);
        }
        __syncthreads();
    }
    best[y * n + x] = shortest;
}

__global__ void in_fours(int *__restrict__ best, const int *__restrict__ left, const int *__restrict__ right, int n)
{
    __shared__ int rows[32][32], columns[32][32];
    int y = blockIdx.y * 32 + threadIdx.y, x = blockIdx.x * 32 + threadIdx.x;
    int shortest[4];
    for (int r = 0; r < 4; ++r) shortest[r] = best[(y + 8 * r) * n + x];
    for (int at = 0; at < n; at += 32) {
        for (int r = 0; r < 4; ++r) {
            rows[threadIdx.y + 8 * r][threadIdx.x] = left[(y + 8 * r) * n + at + threadIdx.x];  // hint: unoverlapped-copy
            columns[threadIdx.y + 8 * r][threadIdx.x] = right[(at + threadIdx.y + 8 * r) * n + x];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            int down = columns[k][threadIdx.x];
            for (int r = 0; r < 4; ++r) shortest[r] = min(shortest[r], rows[threadIdx.y + 8 * r][k] + down);
        }
        __syncthreads();
    }
    for (int r = 0; r < 4; ++r) best[(y + 8 * r) * n + x] = shortest[r];
}

void launch(int *best, int *left, int *right)
{
    through<<<dim3(64, 64), dim3(32, 32)>>>(best, left, right, 2048);
    in_fours<<<dim3(64, 64), dim3(32, 8)>>>(best, left, right, 2048);
}
