// SPDX-License-Identifier: Apache-2.0
// A camera's Bayer mosaic (RGGB, 8 bits) to interleaved RGB by bilinear interpolation, and the mean colour of the result.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                             \
    do {                                                                                        \
        cudaError_t err = (call);                                                               \
        if (err != cudaSuccess) {                                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err));        \
            return 1;                                                                           \
        }                                                                                       \
    } while (0)

// What is outside the image is its mirror image, which keeps the colours of the mosaic.
__host__ __device__ inline int mirror(int i, int n) {
    if (i < 0) return -i;
    if (i >= n) return 2 * n - 2 - i;
    return i;
}

constexpr int kPixels = 8;  // of a row that a thread makes, and the same of the row below
constexpr int kWarps = 8;   // of a block, two rows of 256 pixels each
constexpr unsigned kBytes = 0x00ff00ff;

// Eight pixels of a row, two in a word: those of even and of odd columns, and with each its neighbour on the other side.
struct Row {
    unsigned even[2], odd[2], odd_before[2], even_after[2];
};

__device__ __forceinline__ Row load_row(const unsigned char* row, int x, int width) {
    const uint2 eight = *(const uint2*)(row + x);
    const unsigned before = row[mirror(x - 1, width)], after = row[mirror(x + kPixels, width)];
    Row r;
    r.even[0] = eight.x & kBytes;
    r.even[1] = eight.y & kBytes;
    r.odd[0] = eight.x >> 8 & kBytes;
    r.odd[1] = eight.y >> 8 & kBytes;
    r.odd_before[0] = r.odd[0] << 16 | before;
    r.odd_before[1] = __funnelshift_l(r.odd[0], r.odd[1], 16);
    r.even_after[0] = __funnelshift_r(r.even[0], r.even[1], 16);
    r.even_after[1] = r.even[1] >> 16 | after << 16;
    return r;
}

__device__ __forceinline__ unsigned half_of(unsigned a, unsigned b) { return (a + b) >> 1 & kBytes; }
__device__ __forceinline__ unsigned quarter_of(unsigned a, unsigned b, unsigned c, unsigned d) {
    return (a + b + c + d) >> 2 & kBytes;
}

// Four pixels, whose colours come as even and odd columns, to three words.
__device__ __forceinline__ void interleave(unsigned* out, unsigned r_even, unsigned r_odd, unsigned g_even, unsigned g_odd,
                                           unsigned b_even, unsigned b_odd) {
    const unsigned r = r_even | r_odd << 8, g = g_even | g_odd << 8, b = b_even | b_odd << 8;
    out[0] = __byte_perm(__byte_perm(r, g, 0x1040), b, 0x3410);
    out[1] = __byte_perm(__byte_perm(g, b, 0x2051), r, 0x3610);
    out[2] = __byte_perm(__byte_perm(b, r, 0x3072), g, 0x3710);
}

__device__ void one_pixel(const unsigned char* raw, unsigned char* rgb, int x, int y, int width, int height) {
    const int left = mirror(x - 1, width), right = mirror(x + 1, width);
    const unsigned char* row = raw + (size_t)y * width;
    const unsigned char* up = raw + (size_t)mirror(y - 1, height) * width;
    const unsigned char* down = raw + (size_t)mirror(y + 1, height) * width;
    const int centre = row[x], horizontal = row[left] + row[right], vertical = up[x] + down[x];
    const int diagonal = (up[left] + up[right] + down[left] + down[right]) / 4, cross = (horizontal + vertical) / 4;
    const bool coloured = (x + y) % 2 == 0;
    const int along = coloured ? centre : horizontal / 2, across = coloured ? diagonal : vertical / 2;
    unsigned char* out = rgb + 3 * ((size_t)y * width + x);
    out[0] = y % 2 == 0 ? along : across;
    out[1] = coloured ? cross : centre;
    out[2] = y % 2 == 0 ? across : along;
}

// The colours of a warp's pixels meet in shared memory, so that whole lines of the result are stored, 16 bytes a lane.
__global__ void __launch_bounds__(32 * kWarps)
    demosaic(const unsigned char* __restrict__ raw, unsigned char* __restrict__ rgb, int width, int height) {
    __shared__ uint4 staged[kWarps][2][48];
    const int lane = threadIdx.x, warp = threadIdx.y;
    const int x0 = blockIdx.x * 32 * kPixels, x = x0 + lane * kPixels;
    const int y = 2 * (blockIdx.y * kWarps + warp);
    if (y >= height) return;

    if (width % 16 || height < 3) {  // rows are not aligned
        for (int py = y; py < min(y + 2, height); py++)
            for (int px = x0 + lane; px < min(x0 + 32 * kPixels, width); px += 32) one_pixel(raw, rgb, px, py, width, height);
        return;
    }

    if (x < width) {
        const Row above = load_row(raw + (size_t)mirror(y - 1, height) * width, x, width);
        const Row red = load_row(raw + (size_t)y * width, x, width);
        const Row blue = load_row(raw + (size_t)mirror(y + 1, height) * width, x, width);
        const Row below = load_row(raw + (size_t)mirror(y + 2, height) * width, x, width);
        unsigned out[2][6];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            interleave(&out[0][3 * k], red.even[k], half_of(red.even[k], red.even_after[k]),
                       quarter_of(red.odd_before[k], red.odd[k], above.even[k], blue.even[k]), red.odd[k],
                       quarter_of(above.odd_before[k], above.odd[k], blue.odd_before[k], blue.odd[k]),
                       half_of(above.odd[k], blue.odd[k]));
            interleave(&out[1][3 * k], half_of(red.even[k], below.even[k]),
                       quarter_of(red.even[k], red.even_after[k], below.even[k], below.even_after[k]), blue.even[k],
                       quarter_of(blue.even[k], blue.even_after[k], red.odd[k], below.odd[k]),
                       half_of(blue.odd_before[k], blue.odd[k]), blue.odd[k]);
        }
#pragma unroll
        for (int row = 0; row < 2; row++) {
            uint2* to = (uint2*)staged[warp][row] + 3 * lane;
#pragma unroll
            for (int k = 0; k < 3; k++) to[k] = make_uint2(out[row][2 * k], out[row][2 * k + 1]);
        }
    }
    __syncwarp();
    const int chunks = 3 * min(32 * kPixels, width - x0) / 16;
#pragma unroll
    for (int i = lane; i < 96; i += 32) {
        const int row = i >= 48, chunk = i - 48 * row;
        if (chunk < chunks && y + row < height)
            __stcs((uint4*)(rgb + 3 * ((size_t)(y + row) * width + x0)) + chunk, staged[warp][row][chunk]);
    }
}

__global__ void channel_sums(const unsigned char* rgb, unsigned long long* sums, int pixels) {
    unsigned r = 0, g = 0, b = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < pixels; i += gridDim.x * blockDim.x) {
        r += rgb[3 * i];
        g += rgb[3 * i + 1];
        b += rgb[3 * i + 2];
    }
    atomicAdd(&sums[0], (unsigned long long)r);
    atomicAdd(&sums[1], (unsigned long long)g);
    atomicAdd(&sums[2], (unsigned long long)b);
}

int main(int argc, char** argv) {
    int width = argc > 1 ? atoi(argv[1]) : 8192;
    int height = argc > 2 ? atoi(argv[2]) : 6144;
    int frames = argc > 3 ? atoi(argv[3]) : 20;
    int pixels = width * height;

    // a gradient with noise
    std::vector<unsigned char> raw(pixels), rgb((size_t)3 * pixels);
    unsigned seed = 99;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            seed = seed * 1664525u + 1013904223u;
            raw[(size_t)y * width + x] = (x * 150 / width + y * 80 / height + (seed >> 27)) & 255;
        }

    unsigned char *d_raw, *d_rgb;
    unsigned long long *d_sums, sums[3];
    CHECK(cudaMalloc(&d_raw, pixels));
    CHECK(cudaMalloc(&d_rgb, (size_t)3 * pixels));
    CHECK(cudaMalloc(&d_sums, sizeof sums));
    CHECK(cudaMemcpy(d_raw, raw.data(), pixels, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(d_sums, 0, sizeof sums));

    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    dim3 block(32, kWarps);
    dim3 grid((width + 32 * kPixels - 1) / (32 * kPixels), (height + 2 * kWarps - 1) / (2 * kWarps));
    CHECK(cudaEventRecord(start));
    for (int f = 0; f < frames; f++) demosaic<<<grid, block>>>(d_raw, d_rgb, width, height);
    CHECK(cudaEventRecord(stop));
    CHECK(cudaGetLastError());
    channel_sums<<<1024, 256>>>(d_rgb, d_sums, pixels);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(sums, d_sums, sizeof sums, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(rgb.data(), d_rgb, (size_t)3 * pixels, cudaMemcpyDeviceToHost));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    fprintf(stderr, "%.3f ms a frame\n", ms / frames);

    // every so many rows, the first and the last among them: of each colour the mean of the nearest that have it
    int wrong = 0;
    auto at = [&](int x, int y) { return (int)raw[(size_t)mirror(y, height) * width + mirror(x, width)]; };
    auto colour = [](int x, int y) { return y % 2 == 0 ? (x % 2 == 0 ? 0 : 1) : (x % 2 == 0 ? 1 : 2); };
    int stride = height / 40 + 1;
    for (int k = 0; k <= height / stride; k++) {
        int y = k * stride < height ? k * stride : height - 1;
        for (int x = 0; x < width; x++)
            for (int c = 0; c < 3; c++) {
                int sum = 0, count = 0;
                if (colour(x, y) == c) {
                    sum = at(x, y);
                    count = 1;
                } else
                    for (int dy = -1; dy <= 1; dy++)
                        for (int dx = -1; dx <= 1; dx++)
                            if (colour(x + dx + 2, y + dy + 2) == c) {
                                sum += at(x + dx, y + dy);
                                count++;
                            }
                wrong += rgb[3 * ((size_t)y * width + x) + c] != sum / count;
            }
    }
    cudaFree(d_raw);
    cudaFree(d_rgb);
    cudaFree(d_sums);
    printf("mean colour %.4f %.4f %.4f\n", (double)sums[0] / pixels, (double)sums[1] / pixels, (double)sums[2] / pixels);
    printf("%s\n", wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
