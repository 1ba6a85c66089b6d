# SPDX-License-Identifier: Apache-2.0
"""Kernels as people write them, with the numbers in them that may be tuned and those that may not."""

from __future__ import annotations

import msgspec

from warplens_tools.arch.gpu import Limits


class Snippet(msgspec.Struct, frozen=True):
    """`tuned`: name to present value; `refused`: name to a part of the reason. `code` has no main of its own."""

    name: str
    code: str
    tuned: dict[str, int]
    refused: dict[str, str] = {}


#: Of a card of compute capability 9.0.
LIMITS = Limits(
    warp_size=32, max_threads_per_block=1024, max_threads=2048, max_warps=64, max_blocks=32, registers=65536,
    max_registers_per_thread=255, register_allocation_unit=256, warp_allocation_granularity=4,
    shared_bytes=233472, max_shared_bytes_per_block=232448, default_shared_bytes_per_block=49152,
    reserved_shared_bytes_per_block=1024, shared_allocation_unit=128, shared_banks=32, shared_bank_bytes=4,
    cache_line_bytes=128, schedulers=4,
)  # fmt: skip

GUARDED = """
__global__ void scale(float* x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= a;
}
"""
STRIDED = """
__global__ void scale(float* x, float a, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] *= a;
}
"""

SNIPPETS = (
    Snippet(
        "the block literal stands in the grid's ceiling division too",
        GUARDED + "void go(float* x, int n) { scale<<<(n + 255) / 256, 256>>>(x, 2.0f, n); }",
        {"block.x": 256},
    ),
    Snippet(
        "a host variable, as in the CUDA samples",
        GUARDED
        + """void go(float* x, int n) {
    int threadsPerBlock = 128;
    int blocksPerGrid = (n + threadsPerBlock - 1) / threadsPerBlock;
    scale<<<blocksPerGrid, threadsPerBlock>>>(x, 2.0f, n);
}""",
        {"block.x": 128},
    ),
    Snippet(
        "a macro holds the block size",
        "#define BLOCK 256\n"
        + GUARDED
        + "void go(float* x, int n) { scale<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(x, 2.0f, n); }",
        {"BLOCK": 256},
    ),
    Snippet(
        "a rounding-up helper and dim3 objects",
        GUARDED
        + """constexpr unsigned kThreads = 512;
inline unsigned div_up(unsigned a, unsigned b) { return (a + b - 1) / b; }
void go(float* x, int n) {
    dim3 block(kThreads);
    dim3 grid(div_up(n, kThreads));
    scale<<<grid, block>>>(x, 2.0f, n);
}""",
        {"kThreads": 512},
    ),
    Snippet(
        "the grid divides by block.x",
        GUARDED
        + """void go(float* x, int n) {
    dim3 block(192);
    dim3 grid((n + block.x - 1) / block.x);
    scale<<<grid, block>>>(x, 2.0f, n);
}""",
        {"block.x": 192},
    ),
    Snippet(
        "a grid-stride loop covers the data with any block",
        STRIDED + "void go(float* x, int n) { scale<<<264, 256>>>(x, 2.0f, n); }",
        {"block.x": 256},
    ),
    Snippet(
        "one block a row, striding by blockDim",
        """__global__ void row_sum(const float* m, float* out, int columns) {
    float sum = 0;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += m[blockIdx.x * columns + c];
    atomicAdd(&out[blockIdx.x], sum);
}
void go(const float* m, float* out, int rows, int columns) { row_sum<<<rows, 128>>>(m, out, columns); }""",
        {"block.x": 128},
    ),
    Snippet(
        "a fixed grid and a guard: fewer threads would leave data out",
        GUARDED
        + "void go(float* x, int n) { int blocks = count_blocks(n); scale<<<blocks, 256>>>(x, 2.0f, n); }",
        {},
        {"block.x": "does not follow"},
    ),
    Snippet(
        "a tile transposed through shared memory",
        """#define TILE_DIM 32
#define BLOCK_ROWS 8
__global__ void transpose(float *odata, const float *idata, int width, int height) {
    __shared__ float tile[TILE_DIM][TILE_DIM];
    int x = blockIdx.x * TILE_DIM + threadIdx.x;
    int y = blockIdx.y * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS) tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE_DIM + threadIdx.x;
    y = blockIdx.x * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS) odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}
void go(float* o, const float* i, int nx, int ny) {
    dim3 dimGrid(nx / TILE_DIM, ny / TILE_DIM, 1);
    dim3 dimBlock(TILE_DIM, BLOCK_ROWS, 1);
    transpose<<<dimGrid, dimBlock>>>(o, i, nx, ny);
}""",
        {"TILE_DIM": 32, "BLOCK_ROWS": 8},
    ),
    Snippet(
        "a square tile sets both extents of the block",
        """constexpr int TILE = 16;
__global__ void matmul(const float* a, const float* b, float* c, int n) {
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < n; t += TILE) {
        as[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + col] = sum;
}
void go(const float* a, const float* b, float* c, int n) {
    dim3 block(TILE, TILE), grid((n + TILE - 1) / TILE, (n + TILE - 1) / TILE);
    matmul<<<grid, block>>>(a, b, c, n);
}""",
        {"TILE": 16, "unroll, line 10": 0},
    ),
    Snippet(
        "the block is the square of the tile",
        """#define TILE 16
#define THREADS (TILE * TILE)
__global__ void fill(float* x, int n) {
    __shared__ float cache[THREADS];
    int i = blockIdx.x * THREADS + threadIdx.x;
    cache[threadIdx.x] = i;
    if (i < n) x[i] = cache[threadIdx.x];
}
void go(float* x, int n) { fill<<<(n + THREADS - 1) / THREADS, THREADS>>>(x, n); }""",
        {"TILE": 16},
    ),
    Snippet(
        "the shared array repeats the block size, and both change together",
        """__global__ void smooth(const float* in, float* out, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    s[threadIdx.x] = i < n ? in[i] : 0.0f;
    __syncthreads();
    if (i < n) out[i] = threadIdx.x ? 0.5f * (s[threadIdx.x] + s[threadIdx.x - 1]) : s[0];
}
void go(const float* in, float* out, int n) { smooth<<<(n + 255) / 256, 256>>>(in, out, n); }""",
        {"block.x": 256},
    ),
    Snippet(
        "a reduction that halves a hard-coded count",
        """__global__ void reduce(const float* in, float* out) {
    __shared__ float s[256];
    s[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    for (int k = 128; k > 0; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}
void go(const float* in, float* out, int n) { reduce<<<n / 256, 256>>>(in, out); }""",
        {},
        {"block.x": "has 128"},
    ),
    Snippet(
        "a block size that the kernel never reads",
        """__global__ void chunk(float* x, int n) {
    int i = blockIdx.x * 64 + threadIdx.x % 64;
    if (i < n) x[i] = threadIdx.x / 64;
}
void go(float* x, int n) { chunk<<<(n + 63) / 64, 192>>>(x, n); }""",
        {},
        {"block.x": "never reads blockDim.x"},
    ),
    Snippet(
        "a radius that the host reference uses as well",
        """#define RADIUS 4
#define BLOCK 128
__global__ void stencil(const float* in, float* out, int n) {
    __shared__ float s[BLOCK + 2 * RADIUS];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    s[threadIdx.x + RADIUS] = in[i];
    __syncthreads();
    float sum = 0;
    for (int k = -RADIUS; k <= RADIUS; ++k) sum += s[threadIdx.x + RADIUS + k];
    if (i < n) out[i] = sum;
}
void check(const float* in, int n) { for (int i = RADIUS; i < n; ++i) if (in[i] < 0) return; }
void go(const float* in, float* out, int n) { stencil<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(in, out, n); }""",
        {"BLOCK": 128},
        {"RADIUS": "host code"},
    ),
    Snippet(
        "a constant that launches another kernel too",
        "#define BLOCK 256\n"
        + GUARDED
        + """__global__ void shift(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1;
}
void go(float* x, int n) {
    scale<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(x, 2.0f, n);
    shift<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(x, n);
}""",
        {},
        {"BLOCK": "launches shift with it"},
    ),
    Snippet(
        "a problem size made of the block size",
        """const int kBlock = 256;
const int kCount = kBlock * 1000;
__global__ void fill(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 1; }
void go() {
    float* x;
    cudaMalloc(&x, kCount * sizeof(float));
    fill<<<kCount / kBlock, kBlock>>>(x);
}""",
        {},
        {"kBlock": "host code"},
    ),
    Snippet(
        "launch bounds that repeat the block, and a minimum of blocks",
        """__global__ void __launch_bounds__(256, 2) poly(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * x[i] + 1;
}
void go(float* x, int n) { poly<<<(n + 255) / 256, 256>>>(x, n); }""",
        {"block.x": 256, "launch bounds, blocks": 2},
    ),
    Snippet(
        "launch bounds above the block in use",
        """__global__ void __launch_bounds__(1024) poly(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * x[i] + 1;
}
void go(float* x, int n) { poly<<<(n + 127) / 128, 128>>>(x, n); }""",
        {"block.x": 128, "launch bounds, threads": 1024, "launch bounds, blocks": 0},
    ),
    Snippet(
        "unroll pragmas with and without a number",
        """__global__ void dot(const float* a, const float* b, float* out, int n) {
    float sum = 0;
#pragma unroll 4
    for (int i = 0; i < n; ++i) sum += a[i] * b[i];
    # pragma unroll
    for (int i = 0; i < 8; ++i) sum += a[i];
    out[threadIdx.x] = sum;
}
void go(const float* a, const float* b, float* o, int n) { dot<<<1, 1>>>(a, b, o, n); }""",
        {"unroll, line 3": 4, "unroll, line 5": 0},
    ),
    Snippet(
        "a template argument that is the block size",
        """template <int BLOCK>
__global__ void fill(float* x, int n) {
    __shared__ float s[BLOCK];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    s[threadIdx.x] = i;
    if (i < n) x[i] = s[threadIdx.x];
}
void go(float* x, int n) { fill<256><<<(n + 255) / 256, 256>>>(x, n); }""",
        {"block.x": 256},
    ),
    Snippet(
        "a template argument that is an unrolling depth",
        """template <typename T, int DEPTH>
__global__ void walk(T* x, int n) {
    T acc[DEPTH] = {};
    for (int i = threadIdx.x; i < n; i += DEPTH) acc[i % DEPTH] += x[i];
    x[threadIdx.x] = acc[0];
}
void go(float* x, int n) { walk<float, 4><<<1, 96>>>(x, n); }""",
        {"template argument 2": 4},
        {"block.x": "never reads"},
    ),
    Snippet(
        "dynamic shared memory sized by the block literal",
        """__global__ void stage(float* x, int n) {
    extern __shared__ float s[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < n) x[i] = s[blockDim.x - 1 - threadIdx.x];
}
void go(float* x, int n) { stage<<<(n + 127) / 128, 128, 128 * sizeof(float)>>>(x, n); }""",
        {"block.x": 128},
    ),
    Snippet(
        "a block size computed while the program runs",
        GUARDED
        + """void go(float* x, int n) {
    int threads = 256;
    if (n < 1000) threads = 64;
    scale<<<(n + threads - 1) / threads, threads>>>(x, 2.0f, n);
}""",
        {},
    ),
    Snippet(
        "a block that is changed after its declaration",
        GUARDED
        + """void go(float* x, int n) {
    dim3 block(256);
    if (n > 5) block.x = 32;
    scale<<<(n + block.x - 1) / block.x, block>>>(x, 2.0f, n);
}""",
        {},
        {"block": "changed on the way"},
    ),
    Snippet(
        "launches of different sizes",
        GUARDED
        + """void go(float* x, int n) {
    scale<<<(n + 255) / 256, 256>>>(x, 2.0f, n);
    scale<<<(n + 127) / 128, 128>>>(x, 3.0f, n);
}""",
        {},
        {"block.x": "different block sizes"},
    ),
    Snippet(
        "floor division: only divisors keep every element covered",
        GUARDED + "void go(float* x, int n) { scale<<<n / 256, 256>>>(x, 2.0f, n); }",
        {"block.x": 256},
    ),
    Snippet(
        "a two-dimensional block of literals",
        """__global__ void blur(const float* in, float* out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) out[y * w + x] = in[y * w + x];
}
void go(const float* in, float* out, int w, int h) {
    dim3 block(32, 4);
    dim3 grid((w + 31) / 32, (h + 3) / 4);
    blur<<<grid, block>>>(in, out, w, h);
}""",
        {"block.x": 32, "block.y": 4},
    ),
    Snippet(
        "the kernel is passed its block size",
        """__global__ void fill(float* x, int per_block, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = per_block;
}
void go(float* x, int n) { fill<<<(n + 255) / 256, 256>>>(x, 256, n); }""",
        {},
        {"block.x": "also passed"},
    ),
    Snippet(
        "a block size that the only call of the launch's function passes",
        GUARDED
        + """void go(float* x, int n, int threads) {
    scale<<<(n + threads - 1) / threads, threads>>>(x, 2.0f, n);
}
void use(float* x, int n) { go(x, n, 256); }""",
        {"block.x": 256},
    ),
)
