# SPDX-License-Identifier: Apache-2.0
"""A program, and edits of it that are allowed and that are not: old text and new."""

from __future__ import annotations

from collections.abc import Iterable

BASE = """\
#include <cstdio>
#include <cstdlib>
#include <cstring>
#define BLOCK 256
#define ROUNDS 4
#define CHECK(call) \\
    do { if ((call) != cudaSuccess) { std::printf("%s:%d\\n", __FILE__, __LINE__); std::exit(1); } } while (0)
constexpr int kTile = 16;
constexpr int kShared = 8;
const int kWidth = 64;
struct Point { float x, y; };
struct Plan { int rounds = 1; int doubled() const { return 2 * rounds; } };
__constant__ float table[4];
int steps = 3;
static int div_up(int n, int b) { return (n + b - 1) / b; }
__device__ float twice(float x) { return 2 * x; }
template <int N> __global__ void walk(float* x) { x[threadIdx.x] += N * kTile; }
__global__ void scale(float* out, const float* in, int n, Point p) {
    __shared__ float tile[kTile][kTile];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    tile[0][0] = 1;
    if (i < n) out[i] = twice(in[i]) * p.x + table[i % 4];
}
static void run(float* out, int n, int rounds, const int width) {
    const int wide = (n + width - 1) / width;
    for (int r = 0; r < rounds; ++r) walk<2><<<wide, width>>>(out);
}
static void passed_on(float* out, int n, int width) { run(out, n, 3, width); }
int main() {
    const int n = 1024;
    int asked = steps > 3 ? std::atoi("64") : 96;
    int threads = 128, blocks = (n + threads - 1) / threads;
    dim3 block(BLOCK, 1);
    float host[n];
    float *a, *b;
    std::memset(host, 0, sizeof(host));
    CHECK(cudaMalloc(&a, n * sizeof(float)));
    CHECK(cudaMalloc(&b, div_up(n, kWidth) * kWidth * sizeof(float)));
    CHECK(cudaMemcpy(a, host, n * sizeof(float), cudaMemcpyHostToDevice));
    for (int i = 0; i < steps + kShared; ++i) scale<<<div_up(n, BLOCK), block>>>(b, a, n, Point{1, 2});
    for (int r = 0; r < ROUNDS; ++r) walk<4><<<blocks, threads, kTile * sizeof(float)>>>(b);
    walk<8><<<n / kWidth, kWidth>>>(b);
    walk<8><<<n / asked, asked>>>(b);
    run(b, n, 2, 128);
    passed_on(b, n, 160);
    CHECK(cudaMemcpy(host, b, n * sizeof(float), cudaMemcpyDeviceToHost));
    struct Local { int times = 1; } local;
    std::printf("%f %d\\n", host[0], Plan{}.doubled() + local.times);
    return 0;
}
"""
KERNEL, MAIN = "__global__ void scale", "int main() {"
BODY = "    tile[0][0] = 1;\n"

ALLOWED = {
    "a device function by the name of a local variable": (
        KERNEL,
        "__device__ float asked(float x) { return x; }\n__device__ int blocks(int x) { return x; }\n"
        "__device__ int block(int x) { return x; }\n" + KERNEL,
    ),
    "the kernel's body": (BODY, "    tile[1][1] = 2; __syncwarp();\n\n\n"),
    "lines more above what says its line": ("#define BLOCK 256", "// a\n// b\n\n#define BLOCK 256"),
    "a new device function": (
        KERNEL,
        "__device__ __forceinline__ int one(int a = 3) { return a; }\n" + KERNEL,
    ),
    "a device function of a template": (
        KERNEL,
        "template <class T, int N = 4> __device__ T most(T a) { return a * N; }\n" + KERNEL,
    ),
    "a class for the device": (
        KERNEL,
        "template <class T> struct Sum { T v = 0; __device__ Sum() : v(0) {} __device__ void add(T o) { v += o; } };\n"
        + KERNEL,
    ),
    "a union and a type's name": (
        KERNEL,
        "union Bits { float f; unsigned u; };\nusing Word = unsigned long long;\ntypedef float4 Four;\n"
        + KERNEL,
    ),
    "a lambda in a kernel": (BODY, "    auto f = [=](int k) { out[k] = p.y; };\n    if (n < 0) f(3);\n"),
    "another device function's parameters": ("float twice(float x) {", "float twice(float x, float y = 1) {"),
    "a constant array": (KERNEL, "__constant__ int order[8] = {7, 6, 5, 4, 3, 2, 1, 0};\n" + KERNEL),
    "a namespace of one's own": (KERNEL, "namespace { __device__ int two() { return 2; } }\n" + KERNEL),
    "a tile": ("kTile = 16", "kTile = 32"),
    "a width used in launches and allocations alone": ("kWidth = 64", "kWidth = 128"),
    "a defined block": ("BLOCK 256", "BLOCK (4 * 32)"),
    "a variable block": ("threads = 128", "threads = 64"),
    "a variable block with another default": (": 96", ": 192"),
    "a block passed along": ("run(b, n, 2, 128)", "run(b, n, 2, 256)"),
    "a block passed along twice": ("passed_on(b, n, 160)", "passed_on(b, n, kTile * 4)"),
    "a function that no more needs its own block": ("walk<2><<<wide, width>>>", "walk<2><<<n / 32, 32>>>"),
    "a grid": ("<<<blocks, threads,", "<<<(n + 2 * threads - 1) / (2 * threads), dim3(threads / 2, 2),"),
    "shared bytes": ("kTile * sizeof(float)>>>", "(kTile + 1) * 2 * sizeof(float)>>>"),
    "a number of a template": ("walk<8>", "walk<16>"),
    "more device memory": ("cudaMalloc(&a, n * sizeof(float))", "cudaMalloc(&a, 2 * n * sizeof(float))"),
    "launch bounds": ("void scale(", "__launch_bounds__(256, 2) void scale("),
    "restrict": ("float* out, const float* in", "float* __restrict__ out, const float* __restrict__ in"),
    "half precision's header": ("#include <cstring>", "#include <cstring>\n#include <cuda_fp16.h>"),
    "cooperative groups": (
        "#include <cstring>\n",
        "#include <cstring>\n#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n",
    ),
    "a header before the kernel that asks for it": (KERNEL, "#include <cuda_pipeline.h>\n" + KERNEL),
    "an unrolled loop": (BODY, "#pragma unroll 4\n    for (int k = 0; k < 4; ++k) tile[0][k] = 1;\n"),
    "a constant for the device": (
        KERNEL,
        "constexpr int kUnroll = 4;\nconstexpr float kHalf = 0.5f;\n" + KERNEL,
    ),
    "inline assembler in a kernel": (BODY, '    asm volatile("membar.cta;" ::: "memory");\n'),
}
REFUSED = {
    "a static object behind a comment": (
        MAIN,
        '/* __device__ */ static struct S { S() { system("id"); } } s;\n' + MAIN,
    ),
    "a static object, then a device variable": (
        KERNEL,
        'struct S { S() { std::puts("ran"); } }; static S first; __device__ int second;\n' + KERNEL,
    ),
    "a static initialiser beside a device function": (
        KERNEL,
        '__device__ int f() { return 1; } static int ran = std::system("id");\n' + KERNEL,
    ),
    "a static member with an initialiser": (
        KERNEL,
        'struct S { static inline int ran = std::system("id"); };\n' + KERNEL,
    ),
    "a member's template with one": (
        KERNEL,
        'template <class T> struct R { static int x; };\ntemplate <class T> int R<T>::x = std::puts("");\n'
        "template struct R<int>;\n" + KERNEL,
    ),
    "a constructor by an attribute": (
        KERNEL,
        '__attribute__((constructor)) void early() { std::puts("ran"); }\n' + KERNEL,
    ),
    "a device function that is a constructor": (
        KERNEL,
        "__attribute__((constructor)) __device__ void early() {}\n" + KERNEL,
    ),
    "assembler at the outermost level": (KERNEL, 'asm(".globl x");\n' + KERNEL),
    "another section": (
        KERNEL,
        '__attribute__((section(".init_array"))) void* run = (void*)&div_up;\n' + KERNEL,
    ),
    "an alias": (KERNEL, 'extern "C" int evil() __attribute__((alias("puts")));\n' + KERNEL),
    "a name for a function in assembler": (KERNEL, 'extern "C" int other(int) asm("main");\n' + KERNEL),
    "a renamed function": (KERNEL, "#pragma redefine_extname puts system\n" + KERNEL),
    "a macro anew at the end": (
        "    return 0;\n}\n",
        '    return 0;\n}\n#define MORE int x = std::puts("ran");\nMORE\n',
    ),
    "a macro that main uses": ("#define ROUNDS 4", "#define ROUNDS 5"),
    "a macro that prints": (BODY, BODY + "#undef CHECK\n#define CHECK(call) (call)\n"),
    "a block that assigns": ("block(BLOCK, 1)", "block(BLOCK + 0 * (steps = 1), 1)"),
    "a block that assigns behind a macro": ("BLOCK 256", "BLOCK (256 + 0 * (steps = 3))"),
    "a grid with a comma": ("<<<blocks,", "<<<(steps = 1, blocks),"),
    "a grid that counts": ("<<<blocks,", "<<<blocks + 0 * steps++,"),
    "a grid that calls": ("<<<blocks,", '<<<blocks + std::system("id"),'),
    "a grid that calls twice": ("div_up(n, BLOCK), block", "div_up(n, BLOCK) + div_up(0, 1), block"),
    "a grid with a lambda": ("<<<blocks,", "<<<[&] { return steps = 1; }(),"),
    "a grid with statements": ("<<<blocks,", "<<<({ steps = 1; blocks; }),"),
    "a shared size that allocates": ("kTile * sizeof(float)>>>", "sizeof(*new float[4])>>>"),
    "a constant that a host loop uses": ("kShared = 8", "kShared = 0"),
    "a constant that is computed by calling": ("kWidth = 64", 'kWidth = 64 + 0 * std::puts("ran")'),
    "a global count": ("int steps = 3", "int steps = 4"),
    "a count of a type's own": ("int rounds = 1;", "int rounds = 2;"),
    "a local type's": ("int times = 1;", "int times = 2;"),
    "a count passed along beside a block": ("run(b, n, 2, 128)", "run(b, n, 20, 128)"),
    "a grid that looks up": ("<<<blocks, threads,", "<<<blocks + 0 * int(host[3]), threads,"),
    "a block passed along that calls": ("run(b, n, 2, 128)", "run(b, n, 2, std::rand())"),
    "a block passed along that counts": ("passed_on(b, n, 160)", "passed_on(b, n, steps += 160)"),
    "a block passed along that a loop heeds": (
        "r < rounds; ++r) walk<2><<<wide, width>>>",
        "r < rounds + width; ++r) walk<2><<<wide, width>>>",
    ),
    "another argument read for a block": ('std::atoi("64")', 'std::atoi(std::getenv("X"))'),
    "a count": ("const int n = 1024", "const int n = 64"),
    "what is printed": ('"%f %d', '"%g %d'),
    "less copied": ("cudaMemcpy(host, b, n *", "cudaMemcpy(host, b, 1 *"),
    "a type that host code uses": ("{ float x, y; }", "{ float y, x; }"),
    "a type that does more": ("{ float x, y; }", '{ float x, y; ~Point() { std::puts("ran"); } }'),
    "a device function by a name that host code uses": (
        KERNEL,
        "__device__ int div_up(int n, short b) { return 1; }\n" + KERNEL,
    ),
    "a function both sides have": ("__device__ float twice", "__host__ __device__ float twice"),
    "a new function": (KERNEL, 'inline void idle() { std::puts("ran"); }\n' + KERNEL),
    "a namespace's shadow": (KERNEL, 'namespace cuda_ { static int ran = std::puts(""); }\n' + KERNEL),
    "a header's text by a macro": (
        "#include <cstring>",
        '#define __CUDA_FP16_TYPES_EXIST__ ; static int ran = std::puts("");\n'
        "#define __half_raw __half_raw_; static int ran2 = 3; struct __half_raw\n#include <cstring>\n"
        "#include <cuda_fp16.h>",
    ),
    "a macro for a header before the kernel": (
        KERNEL,
        "#define __half_raw __half_raw_; static int ran2 = 3; struct __half_raw\n#include <cuda_fp16.h>\n"
        + KERNEL,
    ),
    "another launch": ("    walk<8>", "    walk<8><<<1, 1>>>(b);\n    walk<8>"),
    "another argument": ("(b, a, n, Point", "(b, a, n / 2, Point"),
    "another stream": (
        "<<<blocks, threads, kTile * sizeof(float)>>>",
        "<<<blocks, threads, 0, (cudaStream_t)2>>>",
    ),
    "another type for a template": ("walk<8>", "walk<(int)sizeof(Point{1, 2}.x = 3)>"),
}


def together(text: str, names: Iterable[str]) -> str:
    """A text with all these edits of `ALLOWED`: first those that leave what they replace to the next."""
    edits = sorted((ALLOWED[name] for name in names), key=lambda e: (e[0] not in e[1], e[0] != KERNEL))
    for old, new in edits:
        assert old in text, f"another edit took {old!r} away"
        text = text.replace(old, new + BODY if old == BODY else new, 1)
    return text
