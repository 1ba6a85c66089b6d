# SPDX-License-Identifier: Apache-2.0
"""Samples of the built-in tools that need neither a compiler nor a card: what each finds in the text, and what not.

By slug; the examination of `warplens_tools.testing` is held on each. Kernels that only a compiler shows go into
`tests/data/micro`, programs with a measured gain into `tests/planted`.
"""

from __future__ import annotations

from collections.abc import Mapping

from warplens_tools.testing import Sample

INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
MADE = "made<<<g, b>>>(x, y); k<<<g, b>>>(y, z, 7);"
#: What an anti-diagonal of a table follows from.
TABLE = (
    "__global__ void k(float *t, int n, int d)\n{ int x = blockIdx.x * blockDim.x + threadIdx.x, y = d - x; "
    "if (y > 0 && x > 0 && y < n) t[y * n + x] = fmaxf(t[(y - 1) * n + x], t[y * n + x - 1]); }\n"
)
#: Iterations that a thread passes by once it is done.
DONE = (
    "__device__ float next(float);\n__global__ void k(const float *a, float *o, int n)\n{ __shared__ float s[256]; "
    "float x = a[threadIdx.x]; bool done = false; for (int j = 0; j < n; ++j) { "
    "if (!done) { x = next(x + s[j & 255]); s[threadIdx.x] = x; if (x > 4.0f) done = true; } "
)
RECORD = "struct P { float x, y, z, w; };\n"


def kernel(body: str, before: str = "", launch: str = "") -> str:
    """A kernel with a body, launched in a function where that is given."""
    called = f"void f(float *a, float *o, int n) {{ {launch} }}\n" if launch else ""
    return f"{before}__global__ void k(const float *a, float *o, int n)\n{{\n    {INDEX}\n    {body}\n}}\n{called}"


def leaders(body: str) -> str:
    """A kernel that is launched with blocks of eight warps."""
    return kernel(body, launch="k<<<64, 256>>>(a, o, n);")


def rows(launch: str) -> str:
    """A kernel that goes over a picture, row by row of its blocks."""
    return kernel(
        "int y = blockIdx.y * blockDim.y + threadIdx.y; o[y * n + i] = a[y * n + i];", launch=launch
    )


def passes(body: str, launches: str) -> str:
    """A kernel beside one that makes its input, and the host function that launches both."""
    made = f"__global__ void made(const float *a, float *o) {{ {INDEX} o[i] = a[i] + 1.0f; }}\n"
    return f"{kernel(body, made)}void f(float *x, float *y, float *z, int g, int b) {{ {launches} }}\n"


def scaled(by: str) -> str:
    """A kernel that scales what another made, by a factor that a third launch between makes of one array."""
    return (
        f"__global__ void made(const float *a, float *o) {{ {INDEX} o[i] = a[i] + 1.0f; }}\n"
        "__global__ void factor(const float *a, float *f, int n) { float s = 0; "
        "for (int j = threadIdx.x; j < n; j += 32) s += a[j]; atomicAdd(f, s); }\n"
        f"__global__ void k(const float *a, const float *f, float *o) {{ {INDEX} o[i] = f[0] * a[i]; }}\n"
        "void g(float *x, float *y, float *z, float *f, int n) "
        f"{{ made<<<n, 64>>>(x, y); factor<<<1, 32>>>({by}, f, n); k<<<n, 64>>>(y, f, z); }}"
    )


def records(body: str, fields: str = "float x, y, z, w;") -> str:
    """A kernel over an array of records."""
    return f"struct P {{ {fields} }};\n__global__ void k(const P *p, float *o)\n{{ {INDEX} {body} }}"


def tensor(body: str) -> str:
    """A kernel over a tensor, with a row `r` that each lane works out of what it loads."""
    return (
        "__global__ void k(torch::PackedTensorAccessor32<float, 3> a, const float *p, float *o, int n)\n"
        f"{{ {INDEX} int r = static_cast<int>(floorf(p[i])); float s = 0; {body} o[i] = s; }}"
    )


def product(left: str, right: str, result: str) -> str:
    """A kernel whose blocks add up a product of two rows each."""
    return (
        "__global__ void k(const float *a, const float *b, float *c, int n)\n{ __shared__ float s[256]; "
        f"s[threadIdx.x] = a[{left} + threadIdx.x] * b[{right} + threadIdx.x]; __syncthreads(); "
        "for (int d = 128; d > 0; d >>= 1) { if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d]; "
        f"__syncthreads(); }} if (threadIdx.x == 0) c[{result}] = s[0]; }}"
    )


def row_by_matrix(row: str, matrix: str, result: str) -> str:
    """A kernel whose threads multiply a row by the columns of a matrix."""
    return (
        "__global__ void k(const float *a, const float *b, float *c, int n)\n{ int d = threadIdx.x; float s = 0; "
        f"for (int k = 0; k < n; ++k) s += a[{row}] * b[{matrix}]; c[{result}] = s; }}"
    )


def numbers(passed: str, rows: str, columns: str) -> str:
    """A kernel that goes through an image whose extents it is passed."""
    return (
        f"__global__ void k(const float *a, float *o, {passed})\n{{ float s = 0; for (int y = 0; y < {rows}; ++y) "
        f"for (int x = 0; x < {columns}; ++x) s += a[(y * 64 + x) * 256 + threadIdx.x]; o[threadIdx.x] = s; }}"
    )


def summed(place: str, taken: str) -> str:
    """A kernel that stores at a place, and a host that takes what it stored."""
    return kernel(
        f"if (i < n) {place} = a[i];",
        launch="k<<<64, 256>>>(a, o, n); cudaMemcpy(h, o, 256, cudaMemcpyDeviceToHost); "
        f"for (int b = 0; b < 64; ++b) {taken}",
    )


def rows_of_loaded_length(index: str) -> str:
    """A kernel that fills rows whose length all its threads load from one place."""
    return f"__global__ void k(float *o, const int *w)\n{{ {INDEX} o[{index}] = 0.0f; }}"


SAMPLES: Mapping[str, tuple[Sample, ...]] = {
    "strided-field-access": (
        Sample(
            "one part of a library's complex numbers",
            f"__global__ void k(const cufftComplex *a, float *o) {{ {INDEX} o[i] = a[i].x; }}",
            finds=True,
        ),
        Sample(
            "a struct of the file that has such a name",
            "struct cuComplex { float x; };\n"
            f"__global__ void k(const cuComplex *a, float *o) {{ {INDEX} o[i] = a[i].x; }}",
            finds=False,
        ),
        Sample("one field", records("o[i] = p[i].w;", "float x, y, z, w, m[4];"), finds=True),
        Sample("all fields", records("o[i] = p[i].x + p[i].y + p[i].z + p[i].w;"), finds=False),
    ),
    "uncoalesced-global-read": (
        Sample("a column", kernel("o[i] = a[i * n + blockIdx.y];"), finds=True),
        Sample("a row", kernel("o[i] = a[n + i];"), finds=False),
        Sample(
            "an anti-diagonal a launch",
            TABLE + "void f(float *t, int n) { for (int d = 1; d < 2 * n; ++d) k<<<64, 256>>>(t, n, d); }",
            finds=True,
        ),
        Sample(
            "a diagonal that nobody goes on from",
            TABLE + "void f(float *t, int n, int d) { k<<<64, 256>>>(t, n, d); }",
            finds=False,
        ),
    ),
    "uncoalesced-global-write": (
        Sample("a column", kernel("o[i * n + blockIdx.y] = a[i];"), finds=True),
        Sample("rows of a loaded length", rows_of_loaded_length("i * w[blockIdx.z] + blockIdx.y"), finds=True),
        Sample("along rows of a loaded length", rows_of_loaded_length("i + w[blockIdx.z] * blockIdx.y"), finds=False),
        Sample("a row", kernel("o[i] = a[i];"), finds=False),
    ),
    "elements-read-again": (
        Sample(
            "numbers behind pointers", numbers("const int *rows, const int *columns", "*rows", "*columns"), finds=True
        ),
        Sample(
            "vectors behind pointers",
            "__global__ void k(const float *a, const float *b, float4 *o, int n)\n{ for (int k = 0; k < n; ++k) { "
            "float4 x = *reinterpret_cast<const float4 *>(a + 4 * k); "
            "float4 y = *reinterpret_cast<const float4 *>(b + 4 * k); "
            "o[k].x += x.x * y.x; } }",
            finds=False,
        ),
        Sample("numbers by value", numbers("int rows, int columns", "rows", "columns"), finds=False),
        Sample(
            "one that may have been counted", numbers("const int *rows, int columns", "*rows", "columns"), finds=False
        ),
        Sample(
            "loops in the branches of one test",
            kernel(
                "float s = 0; if (o[0] > 0) { for (int k = 0; k < n; ++k) s += a[i * n + k]; }\n"
                "else { for (int k = 0; k < n; ++k) s -= a[i * n + k]; } o[i] = s;"
            ),
            finds=False,
        ),
        Sample(
            "a loop behind a branch with another",
            kernel(
                "float s = 0; if (o[0] > 0) { for (int k = 0; k < n; ++k) s += a[i * n + k]; }\n"
                "for (int k = 0; k < n; ++k) s -= a[i * n + k]; o[i] = s;"
            ),
            finds=True,
        ),
        Sample(
            "a sum in memory, of other elements of the array",
            kernel("for (int k = 1; k < n; ++k) o[i * n] += o[i * n + k];"),
            finds=True,
        ),
        Sample(
            "a sum in a register, of other elements of the array",
            kernel("float s = 0; for (int k = 1; k < n; ++k) s += o[i * n + k]; o[i * n] = s;"),
            finds=False,
        ),
        Sample(
            "an element that moves on with a variable of its own",
            kernel(
                "int p = i, c = i + blockDim.x; for (int k = 1; k < n; ++k) "
                "{ o[c] = o[c] + o[p]; p = c; c += blockDim.x; }"
            ),
            finds=False,
        ),
        Sample(
            "sums in shared memory",
            kernel(
                "extern __shared__ float s[]; for (int k = 0; k < n; ++k) "
                "for (int j = 0; j < n; ++j) s[threadIdx.x * n + j] += a[k * n + j + i];"
            ),
            finds=True,
        ),
        Sample(
            "sums in shared memory that all see",
            kernel(
                "extern __shared__ float s[]; for (int k = 0; k < n; ++k) { "
                "for (int j = 0; j < n; ++j) s[threadIdx.x * n + j] += a[k * n + j + i]; __syncthreads(); }"
            ),
            finds=False,
        ),
        Sample(
            "a generator's state in memory",
            "__global__ void k(curandState *g, float *o, int n) { float s = 0; int i = threadIdx.x; "
            "for (int j = 0; j < n; ++j) s += curand_uniform(&g[i]); o[i] = s; }",
            finds=True,
        ),
        Sample(
            "a generator's state in a local",
            "__global__ void k(curandState *g, float *o, int n) { float s = 0; int i = threadIdx.x; "
            "curandState own = g[i]; for (int j = 0; j < n; ++j) s += curand_uniform(&own); g[i] = own; o[i] = s; }",
            finds=False,
        ),
        Sample(
            "in every iteration around",
            kernel("for (int k = 0; k < n; ++k) for (int j = 0; j < n; ++j) o[k] += a[j * n + i];"),
            finds=True,
        ),
        Sample(
            "others in every iteration",
            kernel("for (int k = 0; k < n; ++k) for (int j = 0; j < n; ++j) o[k] += a[(k * n + j) * n + i];"),
            finds=False,
        ),
        Sample(
            "a sum in memory, in every iteration around",
            kernel("for (int k = 0; k < n; ++k) for (int j = 0; j < n; ++j) o[j * n + i] += k * a[i];"),
            finds=True,
        ),
        Sample(
            "a sum in memory, which the next iteration reaches again",
            kernel("for (int j = 1; j < n; ++j) { o[(j - 1) * n + i] += j; o[j * n + i] += n; }"),
            finds=True,
        ),
        Sample(
            "two elements each",
            kernel("for (int j = 0; j < n; ++j) { o[2 * j * n + i] += j; o[(2 * j + 1) * n + i] += n; }"),
            finds=False,
        ),
    ),
    "integer-division": (
        Sample("by the sizes of a tensor", kernel("o[i] = a[i % n] + a[i / n % n];"), finds=True),
        Sample("by constants", kernel("o[i] = a[i % 24] + a[i / 24 % 7];"), finds=False),
        Sample(
            "of a type that another file defines",
            "__global__ void k(const real *a, const real *b, real *o)\n"
            f"{{ __shared__ real s[256]; {INDEX} s[i] = b[i]; o[i] = a[i] / s[i] + 1 / (s[i] * s[i + 1]); }}",
            finds=False,
        ),
        Sample(
            "by constants of a template",
            "template <typename T> __global__ void k(const float *a, float *o)\n"
            f"{{ constexpr int w = T::width, all = w * T::height; {INDEX} o[i] = a[i % w] + a[i / w % all]; }}",
            finds=False,
        ),
        Sample(
            "by what only looks like a constant",
            "template <typename T> __global__ void k(const float *a, float *o, int h)\n"
            f"{{ constexpr int w = T::width; const int all = w * h; {INDEX} "
            "o[i] = a[i % all] + a[i / all % (w + h)]; }",
            finds=True,
        ),
    ),
    "per-thread-chunks": (
        Sample(
            "a row that each lane loads, around a loop over others",
            kernel("int r = a[i]; for (int j = 0; j < n; ++j) { float s = a[r * n + j]; "
                   "for (int m = 0; m < n; ++m) for (int k = 0; k < n; ++k) s += a[m * n + k]; o[i] += s; }"),
            finds=False,
        ),
        Sample("a stretch each", kernel("for (int j = 0; j < 64; ++j) o[i] += a[i * 64 + j];"), finds=True),
        Sample("in turn", kernel("for (int j = i; j < n; j += gridDim.x * blockDim.x) o[j] = a[j];"), finds=False),
        Sample(
            "a row that each lane loads", kernel("int r = a[i]; for (int j = 0; j < n; ++j) o[i] += a[r * n + j];"),
            finds=True,
        ),
        Sample(
            "a row that a warp loads",
            kernel("int r = a[blockIdx.x]; for (int j = 0; j < n; ++j) o[i] += a[r * n + j];"),
            finds=False,
        ),
        Sample(
            "a row that each lane loads, gone through by the lanes",
            kernel("int r = a[i / 32]; for (int j = threadIdx.x % 32; j < n; j += 32) o[i] += a[r * n + j];"),
            finds=False,
        ),
    ),
    "shared-bank-conflicts": (
        Sample("a column", kernel("__shared__ float t[32][32]; o[i] = t[threadIdx.x][0];"), finds=True),
        Sample("padded", kernel("__shared__ float t[32][33]; o[i] = t[threadIdx.x][0];"), finds=False),
    ),
    "excess-barriers": (
        Sample("twice", kernel("__syncthreads(); __syncthreads(); o[i] = a[i];"), finds=True),
        Sample("none", kernel("o[i] = a[i];"), finds=False),
    ),
    "aliasing-reload": (
        Sample("may alias", kernel("for (int j = 0; j < n; ++j) o[j] = a[i] * j;"), finds=True),
        Sample("kept", kernel("float v = a[i]; for (int j = 0; j < n; ++j) o[j] = v * j;"), finds=False),
    ),
    "host-sync-in-loop": (
        Sample(
            "each time",
            kernel(
                "o[i] = a[i];",
                launch="for (int s = 0; s < n; ++s) { k<<<64, 256>>>(a, o, n); cudaDeviceSynchronize(); }",
            ),
            finds=True,
        ),
        Sample(
            "in a function that asks for a flag",
            "int flag(int *f) { int h; cudaMemcpy(&h, f, 4, cudaMemcpyDeviceToHost); return h; } "
            + kernel(
                "o[i] = a[i];",
                launch="int more = 1; while (more) { k<<<64, 256>>>(a, o, n); more = flag(d); }",
            ),
            finds=True,
        ),
        Sample(
            "in a function that is called once",
            "int flag(int *f) { int h; cudaMemcpy(&h, f, 4, cudaMemcpyDeviceToHost); return h; } "
            + kernel("o[i] = a[i];", launch="for (int s = 0; s < n; ++s) k<<<64, 256>>>(a, o, n); flag(d);"),
            finds=False,
        ),
        Sample(
            "once",
            kernel(
                "o[i] = a[i];",
                launch="for (int s = 0; s < n; ++s) k<<<64, 256>>>(a, o, n); cudaDeviceSynchronize();",
            ),
            finds=False,
        ),
    ),
    "barrier-tree": (
        Sample(
            "a tree",
            kernel(
                "__shared__ float s[256]; s[threadIdx.x] = a[i]; __syncthreads(); for (int d = 128; d > 0; d >>= 1) { "
                "if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d]; __syncthreads(); } o[blockIdx.x] = s[0];"
            ),
            finds=True,
        ),
        Sample(
            "a tree whose step is halved behind loops within loops",
            kernel(
                "__shared__ float s[256]; s[threadIdx.x] = a[i]; int d = 128; while (d > 0) { "
                "if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d]; __syncthreads(); "
                "for (int r = 0; r < 2; ++r) { for (int c = 0; c < 2; ++c) { o[r * n + c] += 1.0f; } } d >>= 1; } "
                "o[blockIdx.x] = s[0];"
            ),
            finds=True,
        ),
        Sample(
            "tiles between barriers, with a tree of shuffles for each",
            kernel(
                "__shared__ float s[256]; float v = 0; for (int t = 0; t < n; t += 256) { s[threadIdx.x] = a[t + i]; "
                "__syncthreads(); v += s[255 - threadIdx.x]; for (int d = 16; d > 0; d >>= 1) "
                "v += __shfl_xor_sync(~0u, v, d); __syncthreads(); } o[i] = v;"
            ),
            finds=False,
        ),
        Sample(
            "a scan whose distance goes on in its body",
            kernel(
                "__shared__ float s[256]; s[threadIdx.x] = a[i]; int d = 1; while (d < 256) { __syncthreads(); "
                "float v = 0; if (threadIdx.x >= d) v = s[threadIdx.x - d]; __syncthreads(); "
                "s[threadIdx.x] += v; d *= 2; } o[i] = s[threadIdx.x];"
            ),
            finds=True,
        ),
        Sample(
            "a scan in a function",
            kernel(
                "__shared__ float s[256]; s[threadIdx.x] = a[i]; scan(s); o[i] = s[threadIdx.x];",
                before=(
                    "__device__ void scan(float *s) { for (int d = 1; d < 256; d *= 2) { float v = s[threadIdx.x]; "
                    "__syncthreads(); if (threadIdx.x >= d) s[threadIdx.x] = v + s[threadIdx.x - d]; "
                    "__syncthreads(); } }\n"
                ),
            ),
            finds=True,
        ),
        Sample(
            "steps one by one",
            kernel(
                "__shared__ float s[512]; s[threadIdx.x] = a[i]; __syncthreads(); "
                + " ".join(
                    f"if (n >= {2 * d}) {{ if (threadIdx.x < {d}) s[threadIdx.x] += s[threadIdx.x + {d}]; "
                    "__syncthreads(); }"
                    for d in (256, 128, 64)
                )
            ),
            finds=True,
        ),
        Sample(
            "shuffles",
            kernel(
                "float v = a[i]; for (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(~0u, v, d); "
                "__syncthreads(); o[i] = v;"
            ),
            finds=False,
        ),
        Sample(
            "down to a warp",
            kernel(
                "__shared__ float s[256]; for (int d = 128; d > 32; d >>= 1) { s[threadIdx.x] += s[threadIdx.x + d]; "
                "__syncthreads(); }"
            ),
            finds=False,
        ),
        Sample(
            "a sorting network",
            kernel(
                "__shared__ float s[256]; for (int m = 2; m <= 256; m *= 2) for (int d = m / 2; d > 0; d /= 2) { "
                "s[threadIdx.x] = fminf(s[threadIdx.x], s[threadIdx.x ^ d]); __syncthreads(); }"
            ),
            finds=False,
        ),
    ),
    "sine-and-cosine": (
        Sample("in one declaration", kernel("float c = cosf(a[i]), s = sinf(a[i]); o[i] = c * s;"), finds=True),
        Sample("in one expression", kernel("o[i] = sinf(a[i]) / (2.0f + cosf(a[i]));"), finds=True),
        Sample("by the overloads", kernel("float x = a[i]; o[i] = std::sin(x); o[n + i] = std::cos(x);"), finds=True),
        Sample("of multiples of pi", kernel("o[i] = cospif(2 * a[i]) + sinpif(2 * a[i]);"), finds=True),
        Sample("in double", kernel("double x = a[i]; o[i] = sin(x) + cos(x);"), finds=True),
        Sample("behind a macro", kernel("o[i] = BOTH(a[i]);", "#define BOTH(x) (sinf(x) + cosf(x))\n"), finds=True),
        Sample("of a variable declared beside", kernel("float x = a[i], y = sinf(x) + cosf(x); o[i] = y;"), finds=True),
        Sample("loaded twice, never stored", kernel("o[i] = sinf(a[i]); o[n + i] = cosf(a[i]);"), finds=True),
        Sample("of two angles", kernel("o[i] = sinf(a[i]) + cosf(2 * a[i]);"), finds=False),
        Sample("twice the sine", kernel("o[i] = sinf(a[i]) + sinf(a[i]);"), finds=False),
        Sample("one call already", kernel("float s, c; sincosf(a[i], &s, &c); o[i] = s * c;"), finds=False),
        Sample("intrinsics", kernel("o[i] = __sinf(a[i]) + __cosf(a[i]);"), finds=False),
        Sample("one or the other", kernel("o[i] = i % 2 ? sinf(a[i]) : cosf(a[i]);"), finds=False),
        Sample("in two branches", kernel("if (i % 2) o[i] = sinf(a[i]); else o[i] = cosf(a[i]);"), finds=False),
        Sample(
            "of a variable that changes", kernel("float x = a[i]; o[i] = sinf(x); x += 1; o[n + i] = cosf(x);"),
            finds=False,
        ),
        Sample(
            "loaded again after a store", kernel("o[i] = sinf(o[i]); o[i] = cosf(o[i]);"), finds=False,
        ),
        Sample("of a random number", kernel("o[i] = sinf(draw()) + cosf(draw());"), finds=False),
        Sample("of a constant", kernel("o[i] = a[i] * (sinf(1.0f) + cosf(1.0f));"), finds=False),
        Sample(
            "functions of the file",
            kernel("o[i] = sinf(a[i]) + cosf(a[i]);", "__device__ float sinf(float x) { return x; }\n"),
            finds=False,
        ),
    ),
    "constant-base": (
        Sample("a power of 2", kernel("o[i] = powf(2.0f, a[i]);"), finds=True),
        Sample("a power of 10 by the overload", kernel("o[i] = a[i] * std::pow(10.f, a[i] / 20.0f);"), finds=True),
        Sample("an integer's", kernel("int stride = pow(2, i % 8); o[i] = a[i * stride];"), finds=True),
        Sample("a base behind a macro", kernel("o[i] = powf(BASE, a[i]);", "#define BASE 10\n"), finds=True),
        Sample("another base", kernel("o[i] = powf(3.0f, a[i]) + powf(20.0f, a[i]) + powf(2.5f, a[i]);"), finds=False),
        Sample("folded by the compiler", kernel("o[i] = a[i] * powf(2.0f, 0.5f) + pow(10, -3);"), finds=False),
        Sample("the exponential itself", kernel("o[i] = exp2f(a[i]) + __powf(2.0f, a[i]);"), finds=False),
        Sample(
            "a function of the file",
            kernel("o[i] = pow(2.0f, a[i]);", "__device__ float pow(float x, float y) { return x * y; }\n"),
            finds=False,
        ),
    ),
    "compared-root": (
        Sample(
            "a root compared",
            kernel("int c = 0; for (int j = 0; j < n; ++j) if (sqrtf(a[j] * a[j] + a[i]) < 2.0f) ++c; o[i] = c;"),
            finds=True,
        ),
        Sample(
            "a root kept to compare",
            kernel(
                "int c = 0; for (int j = 0; j < n; ++j) { float d = sqrtf(a[j]); "
                "if (d < 2.0f) ++c; if (d > 9.0f) --c; } o[i] = c;"
            ),
            finds=True,
        ),
        Sample(
            "a root that is used",
            kernel("float s = 0; for (int j = 0; j < n; ++j) { float d = sqrtf(a[j]); if (d < 2) s += d; } o[i] = s;"),
            finds=False,
        ),
        Sample(
            "a quotient of a function",
            kernel(
                "int c = 0; for (int j = 0; j < n; ++j) if (share(a[i], a[j]) > 0.5f) ++c; o[i] = c;",
                before="__device__ float share(float x, float y) { float z = fminf(x, y); return z / (x + y); }\n",
            ),
            finds=True,
        ),
        Sample(
            "a quotient of integers",
            kernel("int c = 0; for (int j = 1; j < n; ++j) if (n / j > 2) ++c; o[i] = c;"),
            finds=False,
        ),
        Sample("once", kernel("if (sqrtf(a[i]) < 2.0f) o[i] = 1.0f;"), finds=False),
    ),
    "integer-in-double": (
        Sample(
            "an index",
            kernel("float s = 0; for (int j = 0; j < n; ++j) s += a[(int)(j * 0.75 + 0.5)]; o[i] = s;"),
            finds=True,
        ),
        Sample(
            "half a width",
            kernel("for (int j = 0; j < n; ++j) { int at = j + ceil(n / 2.0); o[at] = a[j]; }"),
            finds=True,
        ),
        Sample(
            "a coordinate",
            kernel("float s = 0; for (int j = 0; j < n; ++j) s += a[(int)(a[j] * 0.75 + 0.5)]; o[i] = s;"),
            finds=False,
        ),
        Sample(
            "in integers",
            kernel("float s = 0; for (int j = 0; j < n; ++j) s += a[(3 * j + 2) >> 2]; o[i] = s;"),
            finds=False,
        ),
    ),
    "alike-neighbours": (
        Sample(
            "channels of a point",
            kernel(
                "int c = i % n, p = i / n; float x = a[3 * p], y = a[3 * p + 1], z = a[3 * p + 2]; "
                "o[i] = a[c] * x + y * z;"
            ),
            finds=True,
        ),
        Sample(
            "an index taken apart step by step",
            kernel(
                "int t = i; int c = t % n; t /= n; int p = t; float s = 0; "
                "for (int k = 0; k < n; ++k) s += a[p * n + k] * a[k * n + c]; o[i] = s;"
            ),
            finds=True,
        ),
        Sample(
            "an element each",
            kernel("int c = i % n, p = i / n; o[i] = a[i] + a[i + n] * a[i + 2 * n] + c * p;"),
            finds=False,
        ),
        Sample("one load", kernel("int c = i % n, p = i / n; o[i] = a[p] * c;"), finds=False),
        Sample(
            "a warp for each",
            kernel("int c = i % 32, p = i / 32; o[i] = a[c] * a[p] + a[2 * p + 1] * a[3 * p + 2];"),
            finds=False,
        ),
    ),
    "window-loads": (
        Sample(
            "a window that a second variable walks along",
            kernel("float s = 0; for (int j = n - 1, p = i - n / 2; j >= 0; j--, p++) s += a[p] * o[j]; o[i] = s;"),
            finds=True,
        ),
        Sample(
            "a variable that begins at nothing of the thread's",
            kernel("float s = 0; for (int j = n - 1, p = n - 7; j >= 0; j--, p++) s += a[p] * o[j]; o[i] = s;"),
            finds=False,
        ),
        Sample(
            "what each window's place of an element left",
            "__global__ void k(const float *a, float *o, int width, int step, int wide, int high, int outs)\n"
            f"{{ {INDEX} int x = i % width, y = i / width; float s = 0; "
            "int left = x < wide ? 0 : (x - wide) / step + 1, right = x / step + 1; "
            "int top = y < wide ? 0 : (y - wide) / step + 1, bottom = y / step + 1; "
            "for (int r = top; r < bottom; ++r) for (int c = left; c < right; ++c) { "
            "int u = y - r * step, v = x - c * step; s += a[((u * wide + v) * high + r) * outs + c]; } o[i] = s; }",
            finds=False,
        ),
        Sample(
            "lists as long as they are loaded",
            kernel(
                "int many = (int)a[i], first = (int)a[i + n]; float s = 0; for (int j = 0; j < n; ++j) "
                "for (int k = 0; k < many; ++k) s += a[first + j + k]; o[i] = s;"
            ),
            finds=False,
        ),
        Sample(
            "a blur",
            kernel(
                "int y = blockIdx.y; float s = 0; for (int dy = -2; dy <= 2; ++dy) for (int dx = -2; dx <= 2; ++dx) "
                "s += a[(y + dy + i) * n + i + dx]; o[y * n + i] = s;"
            ),
            finds=True,
        ),
        Sample(
            "along one axis",
            kernel("float s = 0; for (int k = -n; k <= n; ++k) s += a[i + k] * (k + n); o[i] = s;"),
            finds=True,
        ),
        Sample(
            "weights that all threads share",
            kernel(
                "__shared__ float t[36][36]; t[0][i % 36] = a[i]; __syncthreads(); float s = 0; int x, y; "
                "for (y = 0; y < 5; ++y) for (x = 0; x < 5; ++x) s += t[y][i + x] * a[y * 5 + x]; "
                "x = i; y = blockIdx.y; o[y * n + x] = s;"
            ),
            finds=False,
        ),
        Sample(
            "weights at a place of their own",
            kernel(
                "__shared__ float t[36][36]; t[0][i % 36] = a[i]; __syncthreads(); float s = 0; int y = 2; "
                "for (int dy = -2; dy <= 2; ++dy) for (int dx = -2; dx <= 2; ++dx) { "
                "int row = 2 - dy, column = 2 - dx, at = row * 5 + column; s += a[at] * t[y + dy][i + dx]; } o[i] = s;"
            ),
            finds=False,
        ),
        Sample(
            "a row of its own",
            kernel("int first = i * n; float s = 0; for (int k = 0; k < n; ++k) s += a[first + k]; o[i] = s;"),
            finds=False,
        ),
        Sample(
            "a stencil",
            kernel("int y = blockIdx.y, at = y * n + i; o[at] = a[at - 1] + a[at + 1] + a[at - n] + a[at + n];"),
            finds=True,
        ),
        Sample(
            "fields beside one another",
            kernel("o[i] = a[i] + a[i + n] + a[i + 2 * n] + a[i + 3 * n];"),
            finds=False,
        ),
        Sample("a few of a row", kernel("o[i] = a[i] + a[i + 1] + a[i + 2] + a[i + 3];"), finds=False),
        Sample(
            "a median, clamped",
            kernel(
                "int y = blockIdx.y * 8 + threadIdx.y; float s = 0; for (int dy = 0; dy < n; ++dy) "
                "for (int dx = 0; dx < n; ++dx) { int ax = min(max(i + dx - 1, 0), n), ay = min(y + dy, n); "
                "s += a[ay * n + ax]; } o[y * n + i] = s;"
            ),
            finds=True,
        ),
        Sample(
            "a tile",
            kernel(
                "__shared__ float t[36][36]; int y = threadIdx.y; t[y][i] = a[y * n + i]; __syncthreads(); "
                "float s = 0; for (int dy = 0; dy < 5; ++dy) for (int dx = 0; dx < 5; ++dx) "
                "s += t[y + dy][threadIdx.x + dx]; o[y * n + i] = s;"
            ),
            finds=False,
        ),
        Sample(
            "spread by atomics",
            kernel(
                "for (int dy = -2; dy <= 2; ++dy) for (int dx = -2; dx <= 2; ++dx) "
                "atomicAdd(&o[(threadIdx.y + dy) * n + i + dx], a[i]);"
            ),
            finds=False,
        ),
        Sample(
            "elements of its own",
            kernel(
                "int y = threadIdx.y; float s = 0; for (int r = 0; r < 4; ++r) for (int c = 0; c < 4; ++c) "
                "s += a[(4 * y + r) * n + 4 * i + c]; o[y * n + i] = s;"
            ),
            finds=False,
        ),
        Sample(
            "rows of data",
            kernel(
                "float s = 0; for (int r = i; r < i + n; ++r) for (int c = n * r + i; c < n * r + n; c += 32) "
                "s += a[c + r]; o[i] = s;"
            ),
            finds=False,
        ),
        Sample(
            "a product",
            kernel(
                "int y = threadIdx.y; float s = 0; for (int b = 0; b < n; ++b) for (int k = 0; k < 32; ++k) "
                "s += a[y * n + b * 32 + k] * a[(b * 32 + k) * n + i]; o[y * n + i] = s;"
            ),
            finds=False,
        ),
        Sample(
            "from before its place to behind it",
            kernel("float s = 0; for (int j = i - 8; j <= i + 8; ++j) if (j >= 0 && j < n) s += a[j]; o[i] = s;"),
            finds=True,
        ),
        Sample(
            "sums of shared memory",
            kernel(
                "__shared__ float s[512]; s[threadIdx.x] = a[i]; __syncthreads(); float t = 0; "
                "int x = threadIdx.x + n; for (int d = 1; d <= n; ++d) t += s[x + d]; o[i] = t;"
            ),
            finds=True,
        ),
        Sample(
            "weights over shared memory",
            kernel(
                "__shared__ float s[512]; s[threadIdx.x] = a[i]; __syncthreads(); float t = 0; "
                "for (int d = 1; d <= n; ++d) t += s[threadIdx.x + d] * n; o[i] = t;"
            ),
            finds=False,
        ),
        Sample(
            "rows between offsets",
            kernel("float s = 0; for (int j = o[i]; j < o[i + 1]; ++j) s += a[j]; o[i] = s;"),
            finds=False,
        ),
    ),
    "pass-per-step": (
        Sample(
            "a row of a matrix a launch, in a loop that counts in its body",
            "__global__ void k(float *m, int n, int j) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
            "if (i < n && i != j) m[j * n + i] /= m[j * n + j]; }\n"
            "void f(float *m, int n) { int j = 0; while (j < n) { k<<<64, 256>>>(m, n, j); j++; } }",
            finds=True,
        ),
        Sample(
            "another batch in each turn",
            kernel(
                "o[i] = fminf(o[i], o[n] + 1.0f);",
                launch="for (int s = 0; s < n; ++s) { cudaMemcpy(o, h + s * n, 4 * n, cudaMemcpyHostToDevice); "
                "k<<<64, 256>>>(a, o, s); }",
            ),
            finds=False,
        ),
        Sample(
            "a flag that is set in each turn",
            kernel(
                "o[i] = fminf(o[i], o[n] + 1.0f);",
                launch="for (int s = 0; s < n; ++s) { cudaMemcpy(a, &no, 4, cudaMemcpyHostToDevice); "
                "k<<<64, 256>>>(a, o, s); }",
            ),
            finds=True,
        ),
        Sample(
            "the nodes of one level in each launch",
            "__global__ void k(const int *depth, float *m, int level, int n) { "
            f"{INDEX} if (i >= n || depth[i] != level) return; m[i] = m[2 * i] + m[2 * i + 1]; }}\n"
            "void f(const int *depth, float *m, int top, int n) "
            "{ for (int d = top; d >= 0; --d) k<<<(n + 255) / 256, 256>>>(depth, m, d, n); }",
            finds=True,
        ),
        Sample(
            "a pivot a pass",
            kernel("o[i] = fminf(o[i], o[n] + a[i]);", launch="for (int s = 0; s < n; ++s) k<<<64, 256>>>(a, o, s);"),
            finds=True,
        ),
        Sample(
            "two arrays in turn",
            kernel(
                "o[i] = a[i] + a[i + 1];",
                launch="for (int s = 0; s < n; ++s) { k<<<64, 256>>>(a, o, n); std::swap(a, o); }",
            ),
            finds=True,
        ),
        Sample(
            "chunks of other arrays",
            kernel("o[i] += a[i];", launch="for (int s = 0; s < n; ++s) k<<<64, 256>>>(a + s * n, o + s * n, n);"),
            finds=False,
        ),
        Sample(
            "the same again",
            kernel("o[i] = a[i];", launch="for (int s = 0; s < n; ++s) k<<<64, 256>>>(a, o, n);"),
            finds=False,
        ),
        Sample(
            "neighbours of the same array, until it converges",
            kernel("if (i) o[i] = 0.5f * (o[i - 1] + o[i + 1]);", launch="do k<<<64, 256>>>(a, o, n); while (go());"),
            finds=True,
        ),
        Sample(
            "neighbours by a function of their indices",
            kernel(
                "int at = place(i, n); o[at] = 0.5f * (o[place(i - 1, n)] + a[at]);",
                before="__device__ int place(int x, int n) { return x * n; }\n",
                launch="for (int s = 0; s < n; ++s) k<<<64, 256>>>(a, o, n);",
            ),
            finds=True,
        ),
        Sample(
            "elements appended to what is there",
            kernel(
                "if (o[i] > 1.0f) { int last = atomicAdd(count, 1); o[last] = 0.5f * o[i]; }",
                before="__device__ int *count;\n",
                launch="for (int s = 0; s < n; ++s) k<<<64, 256>>>(a, o, n);",
            ),
            finds=False,
        ),
        Sample(
            "fields that two kernels update in turn",
            passes(
                "o[i] += 0.5f * (a[i + 1] - a[i]);",
                "for (int s = 0; s < g; ++s) { k<<<64, 256>>>(x, y, 7); made<<<64, 256>>>(y, x); }",
            ),
            finds=True,
        ),
        Sample(
            "copied back where a swap would do",
            kernel(
                "o[i] = a[i] + a[i + 1];",
                launch="for (int s = 0; s < n; ++s) { k<<<64, 256>>>(a, o, n); "
                "cudaMemcpy(a, o, n * sizeof(float), cudaMemcpyDeviceToDevice); }",
            ),
            finds=True,
        ),
        Sample(
            "a row of what was stored kept aside",
            kernel(
                "o[i] = a[i] + a[i + 1];",
                launch="for (int s = 0; s < n; ++s) { k<<<64, 256>>>(a, o, n); "
                "cudaMemcpy(kept + s * n, o, n * sizeof(float), cudaMemcpyDeviceToDevice); }",
            ),
            finds=False,
        ),
        Sample(
            "the same sum again",
            kernel("o[i] += a[i];", launch="for (int s = 0; s < n; ++s) k<<<64, 256>>>(a, o, n);"),
            finds=False,
        ),
        Sample(
            "counted down",
            kernel("o[i] = fminf(o[i], o[i ^ n]);", launch="for (int j = n; j > 0; j >>= 1) k<<<64, 256>>>(a, o, j);"),
            finds=True,
        ),
        Sample(
            "a few",
            kernel("o[i] += a[i];", launch="for (int s = 0; s < 4; ++s) k<<<64, 256>>>(a, o, s);"),
            finds=False,
        ),
    ),
    "uncoalesced-in-call": (
        Sample(
            "a column of a function's matrix",
            kernel(
                "float s = 0; for (int k = 0; k < n; ++k) s += at(a, i, k + blockIdx.y, n); o[i] = s;",
                before="__device__ float at(const float *m, int r, int c, int w) { int p = r; p *= w; p += c; "
                "float v = m[p]; return v; }\n",
            ),
            finds=True,
        ),
        Sample(
            "a row of a function's matrix",
            kernel(
                "float s = 0; for (int k = 0; k < n; ++k) s += at(a, k + blockIdx.y, i, n); o[i] = s;",
                before="__device__ float at(const float *m, int r, int c, int w) { int p = r; p *= w; p += c; "
                "float v = m[p]; return v; }\n",
            ),
            finds=False,
        ),
        Sample(
            "channels last out of channels first",
            kernel(
                "int t = i; int c = t % n; t /= n; o[i] = load(a, t, c, n);",
                before="__device__ float load(const float *p, int at, int c, int n) { return p[c * n * n + at]; }\n",
            ),
            finds=True,
        ),
    ),
    "product-per-block": (
        Sample(
            "two axes of blocks",
            product("blockIdx.y * n", "blockIdx.x * n", "blockIdx.y * gridDim.x + blockIdx.x"),
            finds=True,
        ),
        Sample(
            "quotient and remainder", product("blockIdx.x / n * n", "blockIdx.x % n * n", "blockIdx.x"), finds=True
        ),
        Sample(
            "rows that two blocks share", product("blockIdx.x * n", "blockIdx.x / 2 * n", "blockIdx.x"), finds=False
        ),
        Sample("a row by one vector", product("blockIdx.y * n", "0", "blockIdx.y"), finds=False),
        Sample("a row by a matrix", row_by_matrix("blockIdx.x * n + k", "k * n + d", "blockIdx.x * n + d"), finds=True),
        Sample("one vector by a matrix", row_by_matrix("k", "k * n + d", "d"), finds=False),
        Sample(
            "a matrix of the block's own",
            row_by_matrix("blockIdx.x * n + k", "(blockIdx.x * n + k) * n + d", "blockIdx.x * n + d"),
            finds=False,
        ),
        Sample("the same row of both", product("blockIdx.y * n", "blockIdx.y * n", "blockIdx.y"), finds=False),
    ),
    "sums-on-host": (
        Sample("a number of each block", summed("o[blockIdx.x]", "t += h[b];"), finds=True),
        Sample(
            "added by a function that is handed the array",
            "float total(float *o) { float h[64], t = 0; cudaMemcpy(h, o, 256, cudaMemcpyDeviceToHost); "
            "for (int b = 0; b < 64; ++b) t += h[b]; return t; }\n"
            + kernel("if (i < n) o[blockIdx.x] = a[i];", launch="k<<<64, 256>>>(a, o, n); total(o);"),
            finds=True,
        ),
        Sample("looked at and not added", summed("o[blockIdx.x]", "use(h[b]);"), finds=False),
        Sample("a number of each thread", summed("o[i]", "t += h[b];"), finds=False),
    ),
    "unguarded-sums": (
        Sample(
            "one for each quotient",
            kernel("int r = threadIdx.x / 8, c = threadIdx.x % 8; if (r == c) o[blockIdx.x * 32 + r] += a[i];"),
            finds=False,
        ),
        Sample(
            "several for each quotient",
            kernel("int r = threadIdx.x / 8, c = threadIdx.x % 8; if (r <= c) o[blockIdx.x * 32 + r] += a[i];"),
            finds=True,
        ),
        Sample("rows by a quotient", kernel("o[i / n] += a[i] * a[i % n];"), finds=True),
        Sample("one element of a block", kernel("if (i < n) o[blockIdx.x] += a[i];"), finds=True),
        Sample("one thread of a block", kernel("if (threadIdx.x == 0) o[blockIdx.x] += a[i];"), finds=False),
        Sample("each its own", kernel("o[i] += a[i];"), finds=False),
        Sample("from each thread on", kernel("for (int k = i; k < n; k *= 2) o[k] += a[k];"), finds=False),
        Sample(
            "blocks of one thread",
            kernel("o[blockIdx.x] += a[i];", launch="k<<<n, 1>>>(a, o, n);"),
            finds=False,
        ),
    ),
    "owned-sums": (
        Sample(
            "taps of a point",
            kernel("int p = i % n, tap = i / n; atomicAdd(&o[p], a[tap * n + p]);"),
            finds=True,
        ),
        Sample("neighbours of one", kernel("atomicAdd(o + i / n, a[i]);"), finds=True),
        Sample(
            "by steps",
            kernel("int t, c, p; t = i; c = t % 4; p = (t / 4) % n; atomicAdd(o + 4 * p + c, a[t]);"),
            finds=True,
        ),
        Sample(
            "an axis left out",
            kernel("int j = blockIdx.y * blockDim.y + threadIdx.y; atomicAdd(&o[i], a[j * n + i]);"),
            finds=True,
        ),
        Sample(
            "an axis left out of a pair's update, behind a test of data",
            kernel("int j = blockIdx.y * blockDim.y + threadIdx.y; if (a[j] > a[i]) atomicAdd(&o[i], a[j] - a[i]);"),
            finds=True,
        ),
        Sample(
            "an axis of blocks",
            kernel("int j = blockIdx.y; atomicAdd(&o[i], a[j * n + i]);"),
            finds=False,
        ),
        Sample("chosen by data", kernel("atomicAdd(&o[(int)a[i] % n], 1.0f);"), finds=False),
        Sample("its own", kernel("int p = i % n, q = i / n; atomicAdd(&o[q * n + p], a[i]);"), finds=False),
        Sample(
            "its own, in every iteration",
            kernel("for (int k = 0; k < n; ++k) atomicAdd(&o[i], a[k * n + i]);"),
            finds=True,
        ),
        Sample(
            "its own once",
            kernel("float s = 0; for (int k = 0; k < n; ++k) s += a[k * n + i]; atomicAdd(&o[i], s);"),
            finds=False,
        ),
        Sample(
            "others in every iteration",
            kernel("for (int k = 0; k < n; ++k) atomicAdd(&o[k * n + i], a[i]);"),
            finds=False,
        ),
        Sample(
            "others by a name of the loop's",
            kernel("for (int k = 0; k < n; ++k) { int p = k * n + i; atomicAdd(&o[p], a[i]); }"),
            finds=False,
        ),
        Sample(
            "others by a name that goes on",
            kernel("int p = i; for (int k = 0; k < n; ++k) { atomicAdd(&o[p], a[i]); p += n; }"),
            finds=False,
        ),
        Sample(
            "others by the loop's own steps",
            kernel("int p = i; while (p < n) { atomicAdd(&o[p], a[p]); p += gridDim.x * blockDim.x; }"),
            finds=False,
        ),
        Sample(
            "a place in a list in every iteration",
            kernel("for (int k = 0; k < n; ++k) { int at = atomicAdd((int *)&o[i], 1); o[at * n] = k; }"),
            finds=False,
        ),
    ),
    "divergent-constant-access": (
        Sample(
            "by what each lane loads",
            kernel("o[i] = curve[(int)a[i] & 255];", "__constant__ float curve[256];\n"),
            finds=True,
        ),
        Sample(
            "by a counter that is stepped beside a place",
            kernel(
                "float s = 0; for (int j = n - 1, p = i; j >= 0; j--, p++) s += a[p] * taps[j]; o[i] = s;",
                "__constant__ float taps[64];\n",
            ),
            finds=False,
        ),
    ),
    "serial-copies": (
        Sample(
            "parts of the data",
            kernel(
                "o[i] = a[i];",
                launch="for (int s = 0; s < n; ++s) { k<<<64, 256>>>(a, o, n); "
                "cudaMemcpy(h + s * n, o, 4 * n, cudaMemcpyDeviceToHost); }",
            ),
            finds=True,
        ),
        Sample(
            "a flag in a place of its own",
            kernel(
                "o[i] = a[i];",
                launch="for (int s = 0; s < n; ++s) { k<<<64, 256>>>(a, o, n); int *done = new int[1]; "
                "cudaMemcpy(done, o, sizeof(int), cudaMemcpyDeviceToHost); if (*done) break; }",
            ),
            finds=False,
        ),
    ),
    "grid-too-small": (
        Sample(
            "a thread for each of what blocks take in turn",
            kernel(
                "for (int b = blockIdx.x; b < n; b += gridDim.x) o[b * 64 + threadIdx.x] = a[b * 64 + threadIdx.x];",
                launch="k<<<(n + 63) / 64, 64>>>(a, o, n);",
            ),
            finds=True,
        ),
        Sample(
            "a block for each of what blocks take in turn",
            kernel(
                "for (int b = blockIdx.x; b < n; b += gridDim.x) o[b * 64 + threadIdx.x] = a[b * 64 + threadIdx.x];",
                launch="k<<<n, 64>>>(a, o, n);",
            ),
            finds=False,
        ),
    ),
    "uneven-loops": (
        Sample(
            "as many around a place that is loaded",
            kernel("int at = (int)a[i]; float s = 0; for (int j = at - 2; j < at + 2; ++j) s += a[j]; o[i] = s;"),
            finds=False,
        ),
        Sample(
            "up to a place that is loaded",
            kernel("int at = (int)a[i]; float s = 0; for (int j = at - n; j < 2 * at; ++j) s += a[j]; o[i] = s;"),
            finds=True,
        ),
        Sample(
            "rows",
            "__global__ void k(const int *first, const float *a, float *o) { int i = blockIdx.x * blockDim.x + "
            "threadIdx.x; float s = 0; for (int e = first[i]; e < first[i + 1]; ++e) s += a[e]; o[i] = s; }",
            finds=True,
        ),
        Sample(
            "until it has settled",
            kernel("float x = a[i]; while (fabsf(x) < 4.0f) x = x * x + 0.1f; o[i] = x;"),
            finds=True,
        ),
        Sample(
            "a break",
            kernel(
                "float x = a[i]; for (int j = 0; j < n; ++j) { x = x * x + 0.1f; if (x > 4.0f) break; } o[i] = x;"
            ),
            finds=True,
        ),
        Sample(
            "a stack that data fill",
            kernel(
                "int stack[32], top = 1; stack[0] = 0; float s = 0; while (top > 0) { int at = stack[--top]; "
                "if (at < n && a[at] < a[i]) { stack[top++] = 2 * at + 1; stack[top++] = 2 * at + 2; } s += a[at]; } "
                "o[i] = s;"
            ),
            finds=True,
        ),
        Sample(
            "a function that it calls",
            kernel(
                "o[i] = walked(a[i], n);",
                "__device__ float walked(float x, int n) { for (int j = 0; j < n; ++j) { x = x * x + 0.1f; "
                "if (x > 4.0f) return x; } return 0.0f; }\n",
            ),
            finds=True,
        ),
        Sample(
            "a function as long for all",
            kernel(
                "o[i] = walked(a[i], n);",
                "__device__ float walked(float x, int n) { for (int j = 0; j < n; ++j) x = x * x + 0.1f; "
                "return x; }\n",
            ),
            finds=False,
        ),
        Sample(
            "a warp for each row",
            "__global__ void k(const int *first, const float *a, float *o) { int i = threadIdx.x / 32; "
            "float s = 0; "
            "for (int e = first[i] + threadIdx.x % 32; e < first[i + 1]; e += 32) s += a[e]; o[i] = s; }",
            finds=False,
        ),
        Sample(
            "an array of its own",
            kernel("int own[4] = {i}; float s = 0; for (int j = 0; j < sizeof(own) / sizeof(own[0]); ++j) s += own[j]; "
                   "o[i] = s;"),
            finds=False,
        ),
        Sample("a grid's stride", kernel("for (int j = i; j < n; j += gridDim.x * 256) o[j] = a[j];"), finds=False),
        Sample("as long for all", kernel("float s = 0; for (int j = 0; j < n; ++j) s += a[j]; o[i] = s;"), finds=False),
    ),
    "generator-setup": (
        Sample(
            "a subsequence for each thread",
            "__global__ void k(curandState *s) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
            "curand_init(7, i, 0, &s[i]); }",
            finds=True,
        ),
        Sample(
            "a seed for each thread",
            "__global__ void k(curandState *s) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
            "curand_init(7 + i, 0, 0, &s[i]); }",
            finds=False,
        ),
        Sample(
            "a generator that counts",
            "__global__ void k(curandStatePhilox4_32_10_t *s) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
            "curand_init(7, i, 0, &s[i]); }",
            finds=False,
        ),
    ),
    "generator-states": (
        Sample(
            "of one thread, once",
            "__global__ void k(float *x, curandState *g, int n) { x[0] = curand_normal(g) * curand_uniform(g); }\n"
            "void f(float *x, curandState *g) { k<<<1, 1>>>(x, g, 7); }",
            finds=False,
        ),
        Sample(
            "of one thread, again and again",
            "__global__ void k(float *x, curandState *g, int n) { x[0] = curand_normal(g) * curand_uniform(g); }\n"
            "void f(float *x, curandState *g) { for (int s = 0; s < 9; ++s) k<<<1, 1>>>(x, g, s); }",
            finds=True,
        ),
        Sample(
            "drawn through the pointer",
            "__global__ void k(float *x, curandState *g, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
            "if (i < n) x[i] += curand_normal(&g[i]) * curand_uniform(&g[i]); }",
            finds=True,
        ),
        Sample(
            "a copy that is stored back, in a function of the file",
            "__device__ float pick(curandState *s) { return curand_uniform(s) - 0.5f; }\n"
            "__global__ void k(float *x, curandState *g, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
            "curandState own = g[i]; x[i] = pick(&own); g[i] = own; }",
            finds=True,
        ),
        Sample(
            "a copy that a loop draws from",
            "__global__ void k(float *x, curandState *g, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
            "curandState own = g[i]; for (int j = 0; j < n; ++j) x[i] += curand_uniform(&own); g[i] = own; }",
            finds=False,
        ),
        Sample(
            "set up in the kernel",
            "__global__ void k(float *x, curandState *g, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
            "curand_init(7, i, 0, &g[i]); x[i] = curand_uniform(&g[i]); }",
            finds=False,
        ),
    ),
    "narrow-block": (
        Sample("eight threads wide", rows("k<<<n, dim3(8, 8)>>>(a, o, n);"), finds=True),
        Sample("a warp wide", rows("k<<<n, dim3(32, 8)>>>(a, o, n);"), finds=False),
        Sample("rows of two sectors", rows("k<<<n, dim3(16, 16)>>>(a, o, n);"), finds=False),
    ),
    "allocation-in-loop": (
        Sample(
            "in each call of a function",
            kernel("o[i] = a[i];", launch="float *d; cudaMalloc(&d, n); k<<<64, 256>>>(d, o, n); cudaFree(d);"),
            finds=True,
        ),
        Sample(
            "in the one call of a function",
            kernel("o[i] = a[i];", launch="float *d; cudaMalloc(&d, n); k<<<64, 256>>>(d, o, n); cudaFree(d);")
            + "int main() { f(0, 0, 7); }",
            finds=False,
        ),
        Sample(
            "kept between calls",
            kernel("o[i] = a[i];", launch="static float *d; if (!d) cudaMalloc(&d, n); k<<<64, 256>>>(d, o, n);"),
            finds=False,
        ),
        Sample(
            "in each iteration",
            kernel("o[i] = a[i];", launch="for (int s = 0; s < n; ++s) { cudaMalloc(&o, n); k<<<4, 64>>>(a, o, n); }"),
            finds=True,
        ),
        Sample(
            "before the loop",
            kernel("o[i] = a[i];", launch="cudaMalloc(&o, n); for (int s = 0; s < n; ++s) k<<<64, 256>>>(a, o, n);"),
            finds=False,
        ),
    ),
    "managed-faults": (
        Sample(
            "no prefetch",
            kernel("o[i] = a[i];", launch="float *m; cudaMallocManaged(&m, n); k<<<64, 256>>>(a, m, n);"),
            finds=True,
        ),
        Sample(
            "a prefetch",
            kernel(
                "o[i] = a[i];",
                launch="float *m; cudaMallocManaged(&m, n); cudaMemPrefetchAsync(m, n, 0); k<<<64, 256>>>(a, m, n);",
            ),
            finds=False,
        ),
        Sample(
            "a single value",
            kernel("o[i] = a[i];", launch="float *m; cudaMallocManaged(&m, sizeof(float)); k<<<64, 256>>>(a, m, n);"),
            finds=False,
        ),
        Sample(
            "not passed",
            kernel("o[i] = a[i];", launch="float *m; cudaMallocManaged(&m, n); k<<<64, 256>>>(a, o, n);"),
            finds=False,
        ),
    ),
    "passes-in-a-row": (
        Sample(
            "in the branches of one test",
            passes("o[i] = 2.0f * a[i];", "if (g) { made<<<g, b>>>(x, y); } else { k<<<g, b>>>(y, z, 7); }"),
            finds=False,
        ),
        Sample("behind a launch that makes its factor of it", scaled("y"), finds=False),
        Sample("behind a launch that makes its factor of another", scaled("x"), finds=True),
        Sample(
            "a library's scan between",
            passes("o[i] = 2.0f * a[i];", MADE.replace("; k", "; lib::Scan::sums(x, y, 7); k")),
            finds=False,
        ),
        Sample(
            "a call between that leaves them alone",
            passes("o[i] = 2.0f * a[i];", MADE.replace("; k", "; tell(x, 7); k")),
            finds=True,
        ),
        Sample("the same threads", passes("o[i] = 2.0f * a[i];", MADE), finds=True),
        Sample("another grid", passes("o[i] = 2.0f * a[i];", MADE.replace("k<<<g", "k<<<1")), finds=False),
        Sample(
            "the neighbours'",
            passes("o[i] = a[i] + a[i + n];", MADE),
            finds=False,
        ),
        Sample(
            "a copy between",
            passes("o[i] = 2.0f * a[i];", MADE.replace("; k", "; cudaMemcpy(y, x, 4, h); k")),
            finds=False,
        ),
        Sample("another array", passes("o[i] = 2.0f * a[i];", MADE.replace("(y, z", "(x, z")), finds=False),
    ),
    "updates-by-data": (
        Sample(
            "the group of its group",
            "__global__ void k(const int *part, const int *whole, const float *a, float *o, int n) { "
            "int i = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y; "
            "const int p = part[i]; const int w = whole[p]; atomicAdd(o + (y + n * w), a[i]); }",
            finds=True,
        ),
        Sample(
            "a place of a hash table",
            "struct E { unsigned key, value; };\n__global__ void k(E *table, const unsigned *keys) { "
            "unsigned key = keys[blockIdx.x * blockDim.x + threadIdx.x], at = key * 2654435761u >> 12; "
            "while (atomicCAS(&table[at].key, 0u, key)) at = (at + 1) & 1048575; }",
            finds=True,
        ),
        Sample(
            "a histogram",
            "__global__ void k(const int *key, int *bins, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
            "if (i < n) atomicAdd(&bins[key[i] % n], 1); }",
            finds=True,
        ),
        Sample(
            "in shared memory",
            "__global__ void k(const int *key, int *bins, int n) { extern __shared__ int own[]; "
            "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) atomicAdd(&own[key[i] % n], 1); }",
            finds=False,
        ),
        Sample("its own", kernel("atomicAdd(&o[i], a[i]);"), finds=False),
    ),
    "search-per-thread": (
        Sample(
            "a draw by weights",
            kernel("float r = a[i], s = a[0]; int j = 0; while (s < r && j < n) { ++j; s += a[j]; } o[i] = j;"),
            finds=True,
        ),
        Sample(
            "a draw by weights, left by a break",
            kernel("float r = a[i], s = 0; int j; for (j = 0; j < n; ++j) { s += a[j]; if (s > r) break; } o[i] = j;"),
            finds=True,
        ),
        Sample(
            "a sum of the thread's own until it is enough",
            kernel("float s = 0; int j = 0; while (s < 1 && j < n) { s += a[i * n + j]; ++j; } o[i] = s;"),
            finds=False,
        ),
        Sample(
            "a sum of all, asked for afterwards",
            kernel("float s = 0; for (int j = 0; j < n; ++j) s += a[j]; if (s > a[i]) o[i] = s;"),
            finds=False,
        ),
        Sample(
            "a pair's number counted up to",
            kernel("int row = 1; while (row * (row - 1) / 2 <= i) row++; o[i] = a[row - 1];"),
            finds=True,
        ),
        Sample(
            "the first element that is larger",
            kernel("int k = 0; while (k < n && a[k] < o[i]) { ++k; } o[i] = k;"),
            finds=True,
        ),
        Sample(
            "a root that is corrected",
            kernel(
                "int row = sqrtf(2.0f * i); if (row < 2) row = 2; "
                "while (row * (row + 1) / 2 > i) --row; o[i] = a[row];"
            ),
            finds=False,
        ),
        Sample("a common prefix", kernel("int k = 0; while (k < n && a[k] == a[i + k]) ++k; o[i] = k;"), finds=False),
        Sample("a plain count", kernel("int k = i; float s = 0; while (k < n) k += 1; o[i] = s + k;"), finds=False),
        Sample(
            "a loop",
            kernel(
                "int low = 0, high = n; while (low < high) { int m = (low + high) / 2; "
                "if (a[m] < o[i]) low = m + 1; else high = m; } o[i] = low;"
            ),
            finds=True,
        ),
        Sample(
            "a function",
            kernel(
                "o[i] = place(a, n, o[i]);",
                before="__device__ int place(const float *a, int n, float x) { int low = 0, high = n; "
                "while (high - low > 1) { int m = low + (high - low) / 2; if (a[m] <= x) low = m; else high = m; } "
                "return low; }\n",
            ),
            finds=True,
        ),
        Sample(
            "the lower bound by a length that is halved",
            kernel(
                "int first = 0, left = n; while (left > 0) { int m = first + left / 2; if (a[m] < o[i]) { "
                "first = m + 1; left -= left / 2 + 1; } else left /= 2; } o[i] = first;"
            ),
            finds=True,
        ),
        Sample(
            "the runs of a merge sort",
            kernel(
                "for (int k = 2; k < 2 * n; k *= 2) for (int l = 0; l < n; l += k) { int middle = l + k / 2; "
                "for (int j = middle; j < l + k; ++j) o[i * n + j] = a[i * n + middle - j]; }"
            ),
            finds=False,
        ),
        Sample("a library's", kernel("o[i] = *thrust::lower_bound(thrust::seq, a, a + n, o[i]);"), finds=True),
        Sample(
            "a mean of neighbours",
            kernel("for (int j = 1; j < n; ++j) { int m = (i + j) / 2; o[j] = a[m]; }"),
            finds=False,
        ),
    ),
    "element-gathers": (
        Sample(
            "a place by a product of 24 bits",
            "__global__ void k(const char *a, int *o) { int i = __mul24(blockIdx.x, blockDim.x) + threadIdx.x; "
            "int s = 0; for (int j = 0; j < 4; ++j) s += a[i + j]; o[i] = s; }",
            finds=False,
        ),
        Sample(
            "the coordinates of a neighbour",
            kernel("int j = (int)a[i]; o[i] = a[3 * j] + a[3 * j + 1] + a[3 * j + 2];"),
            finds=True,
        ),
        Sample(
            "the ends of a row",
            kernel("int j = (int)a[i]; o[i] = a[j + 1] - a[j];"),
            finds=False,
        ),
        Sample("fields of its own", kernel("o[i] = a[3 * i] + a[3 * i + 1] + a[3 * i + 2];"), finds=False),
        Sample(
            "features of a chosen point",
            "template <int C> __global__ void k(const float *f, const int *id, float *o) { int i = blockIdx.x * "
            "blockDim.x + threadIdx.x; int at = id[i] * C; float s = 0; for (int c = 0; c < C; ++c) s += f[at + c]; "
            "o[i] = s; }",
            finds=True,
        ),
        Sample(
            "a row of a chosen point",
            "__global__ void k(const float *f, const int *id, float *o, int n) { int i = blockIdx.x * blockDim.x + "
            "threadIdx.x; int at = id[i] * n; float s = 0; for (int c = 0; c < n; ++c) s += f[at + c]; o[i] = s; }",
            finds=False,
        ),
        Sample("its own", kernel("float s = 0; for (int c = 0; c < 4; ++c) s += a[4 * i + c]; o[i] = s;"), finds=False),
    ),
    "barriers-per-step": (
        Sample(
            "threads that are done go on",
            DONE + "__syncthreads(); } o[threadIdx.x] = x; }",
            finds=True,
        ),
        Sample(
            "a block that leaves when all are done",
            DONE + "if (__syncthreads_and(done)) break; } o[threadIdx.x] = x; }",
            finds=False,
        ),
        Sample(
            "three a step, one thread between",
            kernel(
                "__shared__ float s[256], t[256]; __shared__ int at; for (int j = 0; j < n; ++j) { "
                "if (threadIdx.x == 0) at = j * 2; __syncthreads(); s[threadIdx.x] = a[at + i]; __syncthreads(); "
                "t[threadIdx.x] = s[255 - threadIdx.x]; __syncthreads(); o[i] += t[255 - threadIdx.x]; }"
            ),
            finds=True,
        ),
        Sample(
            "one of the grid",
            kernel(
                "auto g = cooperative_groups::this_grid(); for (int j = 0; j < n; ++j) { o[i] = a[i + j]; g.sync(); }"
            ),
            finds=True,
        ),
        Sample(
            "results handed on through global memory",
            kernel("for (int j = 1; j < n; ++j) { o[j * n + i] = o[(j - 1) * n + i + 1]; __syncthreads(); }"),
            finds=True,
        ),
        Sample(
            "a tile's two",
            kernel(
                "__shared__ float s[256]; for (int j = 0; j < n; ++j) { s[threadIdx.x] = a[j * 256 + i]; "
                "__syncthreads(); for (int k = 0; k < 256; ++k) o[i] += s[k]; __syncthreads(); }"
            ),
            finds=False,
        ),
    ),
    "indirect-access": (
        Sample(
            "a row of each lane's own",
            "__global__ void k(float **row, float *o, int many) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
            "o[i] = row[i % many][i / many]; }",
            finds=True,
        ),
        Sample(
            "a row of constant length that each lane walks through",
            "__global__ void k(const int *at, const float *a, float *o) { int i = blockIdx.x * blockDim.x + "
            "threadIdx.x; float s = 0; for (int d = 0; d < 64; d += 2) s += a[64 * at[i] + d] * a[64 * at[i] + d + 1]; "
            "o[i] = s; }",
            finds=True,
        ),
        Sample(
            "such a row for the whole warp",
            "__global__ void k(const int *at, const float *a, float *o) { float s = 0; "
            "for (int d = 0; d < 64; ++d) s += a[64 * at[blockIdx.x] + d]; o[threadIdx.x] = s; }",
            finds=False,
        ),
        Sample(
            "a row that lanes go along",
            "__global__ void k(float **row, float *o, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
            "float *own = row[i / n]; o[i] = own[i % n]; }",
            finds=False,
        ),
        Sample(
            "a gather",
            "__global__ void k(const int *at, const float *a, float *o) { int i = blockIdx.x * blockDim.x + "
            "threadIdx.x; o[i] = a[at[i]]; }",
            finds=True,
        ),
        Sample(
            "a scatter by a name",
            "__global__ void k(const int *at, const float *a, float *o) { int i = blockIdx.x * blockDim.x + "
            "threadIdx.x; int slot = at[i]; o[slot] = a[i]; }",
            finds=True,
        ),
        Sample(
            "a row that data choose, lanes side by side",
            "__global__ void k(const int *at, const float *a, float *o, int n) { int row = at[threadIdx.y]; "
            "o[threadIdx.y * n + threadIdx.x] = a[row * n + threadIdx.x]; }",
            finds=False,
        ),
        Sample(
            "rows of a pitch that all lanes load from one place",
            "__global__ void k(const int *at, const float *a, float *o) { int i = blockIdx.x * blockDim.x + "
            "threadIdx.x; int row = i; if (row > 7) row -= 3; int place = at[0] + row * at[1]; o[i] = a[place]; }",
            finds=False,
        ),
        Sample(
            "a walk from a chosen start",
            "__global__ void k(const int *first, const float *a, float *o) { int i = blockIdx.x * blockDim.x + "
            "threadIdx.x; float s = 0; for (int e = first[i]; e < first[i + 1]; ++e) s += a[e]; o[i] = s; }",
            finds=False,
        ),
    ),
    "runtime-rows": (
        Sample("rows that each lane works out", tensor("for (int c = 0; c < n; ++c) s += a[0][r][c];"), finds=True),
        Sample("lanes along the last axis", tensor("for (int c = 0; c < n; ++c) s += a[0][c][r];"), finds=False),
        Sample("no walk", tensor("s = a[0][r][0];"), finds=False),
    ),
    "one-warp-blocks": (
        Sample(
            "walks",
            kernel("for (int j = 0; j < n; ++j) o[i] += a[j];", launch="k<<<n, 32>>>(a, o, n);"),
            finds=True,
        ),
        Sample("no walk", kernel("o[i] = a[i];", launch="k<<<n, 32>>>(a, o, n);"), finds=False),
        Sample(
            "four warps",
            kernel("for (int j = 0; j < n; ++j) o[i] += a[j];", launch="k<<<n, 128>>>(a, o, n);"),
            finds=False,
        ),
    ),
    "own-slots": (
        Sample(
            "a sum of each thread",
            kernel("__shared__ float s[256]; s[threadIdx.x] = 0; for (int j = 0; j < n; ++j) s[threadIdx.x] += "
                   "a[j * n + i]; "
                   "o[i] = s[threadIdx.x];"),
            finds=True,
        ),
        Sample(
            "a point of each thread",
            kernel("__shared__ float s[512]; s[threadIdx.x * 2] = a[i]; s[threadIdx.x * 2 + 1] = a[i + n]; "
                   "for (int j = 0; j < n; ++j) o[i] += s[2 * threadIdx.x] * s[2 * threadIdx.x + 1];"),
            finds=True,
        ),
        Sample(
            "of both axes",
            kernel("__shared__ float s[16][16]; s[threadIdx.y][threadIdx.x] = a[i]; o[i] = "
                   "s[threadIdx.y][threadIdx.x];"),
            finds=True,
        ),
        Sample(
            "an element of a row for all of its threads",
            kernel("__shared__ float s[16]; if (threadIdx.y == 0) s[threadIdx.x] = a[i]; __syncthreads(); "
                   "o[i + threadIdx.y * n] = s[threadIdx.x];"),
            finds=False,
        ),
        Sample(
            "the next thread's element",
            kernel("__shared__ float s[257]; s[threadIdx.x] = a[i]; __syncthreads(); o[i] = s[threadIdx.x + 1];"),
            finds=False,
        ),
        Sample(
            "handed on",
            kernel("__shared__ float s[256]; s[threadIdx.x] = a[i]; sum(s); o[i] = s[threadIdx.x];"),
            finds=False,
        ),
        Sample(
            "added to by others",
            kernel("__shared__ float s[256]; s[threadIdx.x] = 0; __syncthreads(); atomicAdd(&s[threadIdx.x], a[i]); "
                   "o[i] = s[threadIdx.x];"),
            finds=False,
        ),
        Sample(
            "a column of run-time indices",
            kernel("__shared__ float s[4096]; for (int j = 0; j < 16; ++j) s[j * 256 + threadIdx.x] = a[i + j * n]; "
                   "o[i] = s[(n & 15) * 256 + threadIdx.x];"),
            finds=False,
        ),
    ),
    "alike-loops": (
        Sample(
            "a sum that each thread of the block adds up",
            kernel("float s = 0; for (int j = 0; j < n; ++j) s += a[blockIdx.x * n + j]; o[i] = a[i] / s;"),
            finds=True,
        ),
        Sample(
            "a schedule that nothing changes",
            kernel("int t[256]; int j = i; for (int u = 0, k = 0; u < 256; ++u) { k = (k + u * n) & 255; t[k] = "
                   "t[u] + (int)a[u]; } "
                   "j = t[j & 255]; o[i] = j;"),
            finds=True,
        ),
        Sample(
            "a plane's sum for each of its elements",
            kernel("int c = i / n; float s = 0; for (int j = 0; j < n; ++j) s += a[c * n + j]; o[i] = a[i] - s / n;"),
            finds=True,
        ),
        Sample(
            "a row for all threads along x",
            kernel("int r = threadIdx.y; float s = 0; for (int j = 0; j < n; ++j) s += a[r * n + j]; o[r * n + "
                   "i] = s;"),
            finds=True,
        ),
        Sample("each its own row", kernel("float s = 0; for (int j = 0; j < n; ++j) s += a[i * n + j]; o[i] = "
                                          "s;"), finds=False),
        Sample(
            "dealt out",
            kernel("float s = 0; for (int j = threadIdx.x; j < n; j += 256) s += a[blockIdx.x * n + j]; "
                   "atomicAdd(o, s);"),
            finds=False,
        ),
        Sample(
            "by one thread",
            kernel("if (threadIdx.x == 0) { float s = 0; for (int j = 0; j < n; ++j) s += a[blockIdx.x * n + "
                   "j]; *o = s; }"),
            finds=False,
        ),
        Sample(
            "each thread's own value in it",
            kernel("float s = 0, x = a[i]; for (int j = 0; j < n; ++j) s += fabsf(a[j] - x); o[i] = s;"),
            finds=False,
        ),
        Sample(
            "left by each thread's own test",
            kernel("float s = 0; for (int j = 0; j < n; ++j) { s += a[j]; if (s > a[i]) break; } o[i] = s;"),
            finds=False,
        ),
        Sample(
            "what a function makes of its thread",
            kernel("float s = 0; for (int j = 0; j < n; ++j) s += own(a, j); o[i] = s;",
                   "__device__ float own(const float *a, int j) { return a[j * 32 + threadIdx.x]; }\n"),
            finds=False,
        ),
        Sample(
            "weights into registers",
            kernel("float w[64]; for (int j = 0; j < 64; ++j) w[j] = a[j]; o[i] = w[n & 1] * a[i] + w[0];"),
            finds=False,
        ),
        Sample("few iterations", kernel("float s = 0; for (int j = 0; j < 8; ++j) s += a[j]; o[i] = s;"), finds=False),
        Sample(
            "tiles that the block waits for",
            kernel("__shared__ float t[256]; float s = 0; for (int j = 0; j < n; j += 256) { t[threadIdx.x] = "
                   "a[j + threadIdx.x]; "
                   "__syncthreads(); for (int k = 0; k < 8; ++k) s += t[k]; __syncthreads(); } o[i] = s;"),
            finds=False,
        ),
    ),
    "shared-windows": (
        Sample(
            "along two axes",
            kernel(
                "__shared__ float s[40][40]; s[threadIdx.y][threadIdx.x] = a[i]; float v = 0; "
                "for (int y = 0; y < 5; ++y) for (int x = 0; x < 5; ++x) "
                "v = fminf(v, s[threadIdx.y + y][threadIdx.x + x]); o[i] = v;"
            ),
            finds=True,
        ),
        Sample(
            "along one",
            kernel(
                "__shared__ float s[300]; s[threadIdx.x] = a[i]; float v = 0; for (int x = -8; x <= 8; ++x) "
                "v += a[x + 8] * s[threadIdx.x + 8 + x]; o[i] = v;"
            ),
            finds=True,
        ),
        Sample(
            "three elements",
            kernel(
                "__shared__ float s[300]; s[threadIdx.x] = a[i]; float v = 0; for (int x = 0; x < 3; ++x) "
                "v += a[x] * s[threadIdx.x + x]; o[i] = v;"
            ),
            finds=False,
        ),
        Sample(
            "rows of a product",
            kernel(
                "__shared__ float s[32][32], t[32][32]; float v = 0; for (int k = 0; k < 32; ++k) "
                "v += s[threadIdx.y][k] * t[k][threadIdx.x]; o[i] = v;"
            ),
            finds=False,
        ),
    ),
    "warp-tree-in-shared": (
        Sample(
            "written one by one",
            kernel(
                "__shared__ volatile float s[256]; int t = threadIdx.x; s[t] = a[i]; "
                "if (t % 32 < 16) s[t] += s[t + 16]; if (t % 32 < 8) s[t] += s[t + 8]; "
                "s[t] += s[t + 4]; s[t] += s[t + 2]; s[t] += s[t + 1]; o[i] = s[t];"
            ),
            finds=True,
        ),
        Sample(
            "in a function",
            kernel(
                "__shared__ float s[256]; s[threadIdx.x] = a[i]; last(s, threadIdx.x); o[i] = s[0];",
                "__device__ void last(volatile float *s, int t) { s[t] = fmaxf(s[t], s[t + 8]); "
                "s[t] = fmaxf(s[t], s[t + 4]); s[t] = fmaxf(s[t], s[t + 2]); }\n",
            ),
            finds=True,
        ),
        Sample(
            "by halves of a warp",
            kernel(
                "__shared__ float s[256]; int t = threadIdx.x; s[t] = a[i]; for (int d = 16; d > 0; d >>= 1) "
                "{ if (t % 32 < d) s[t] += s[t + d]; __syncwarp(); } o[i] = s[t];"
            ),
            finds=True,
        ),
        Sample(
            "over the block",
            kernel(
                "__shared__ float s[256]; int t = threadIdx.x; s[t] = a[i]; for (int d = 128; d > 0; d >>= 1) "
                "{ __syncthreads(); if (t < d) s[t] += s[t + d]; } o[i] = s[0];"
            ),
            finds=False,
        ),
        Sample(
            "a barrier for each step",
            kernel(
                "__shared__ float s[256]; int t = threadIdx.x; s[t] = a[i]; __syncthreads(); s[t] += s[t + 16]; "
                "__syncthreads(); s[t] += s[t + 8]; __syncthreads(); s[t] += s[t + 4]; o[i] = s[0];"
            ),
            finds=False,
        ),
        Sample(
            "a stencil",
            kernel("__shared__ float s[300]; int t = threadIdx.x; s[t] = a[i]; o[i] = s[t] + s[t + 1] + s[t + 2];"),
            finds=False,
        ),
    ),
    "fragment-loads": (
        Sample(
            "from global memory",
            kernel(
                "for (int j = 0; j < n; j += 16) { wmma::load_matrix_sync(f, a + j, n); wmma::mma_sync(c, f, f, c); }"
            ),
            finds=True,
        ),
        Sample(
            "from a tile",
            kernel(
                "__shared__ float t[256]; t[threadIdx.x] = a[i]; for (int j = 0; j < n; j += 16) "
                "{ wmma::load_matrix_sync(f, t + j, 16); wmma::mma_sync(c, f, f, c); }"
            ),
            finds=False,
        ),
        Sample("once", kernel("wmma::load_matrix_sync(f, a, n); wmma::mma_sync(c, f, f, c);"), finds=False),
    ),
    "runtime-calls": (
        Sample(
            "for the one thread there is",
            kernel("float *t = new float[n]; t[0] = a[i]; o[i] = t[0];", launch="k<<<1, 1>>>(a, o, n);"),
            finds=False,
        ),
        Sample("for each thread", kernel("float *t = new float[n]; t[0] = a[i]; o[i] = t[0]; delete[] t;"), finds=True),
        Sample("by malloc", kernel("float *t = (float *)malloc(4); t[0] = a[i]; o[i] = t[0]; free(t);"), finds=True),
        Sample(
            "in a function",
            kernel(
                "o[i] = best(a, n);",
                "__device__ float best(const float *a, int n) { auto *t = new float[n]; t[0] = a[0]; float r = t[0]; "
                "delete[] t; return r; }\n",
            ),
            finds=True,
        ),
        Sample("in place", kernel("__shared__ char s[64]; float *t = new (s) float(a[i]); o[i] = *t;"), finds=False),
        Sample(
            "for the block",
            kernel("__shared__ float *t; if (threadIdx.x == 0) t = new float[n]; __syncthreads(); o[i] = t[i] + a[i];"),
            finds=False,
        ),
        Sample("a print", kernel('o[i] = a[i]; if (i < n) printf("%d %f\\n", i, a[i]);'), finds=True),
        Sample("a print in a loop", kernel('for (int j = 0; j < n; ++j) printf("%f", a[j]);'), finds=True),
        Sample("a print of one", kernel('o[i] = a[i]; if (i == 0) printf("%f", a[0]);'), finds=False),
        Sample("a print of who leaves", kernel('if (i >= n) { printf("%d", i); return; } o[i] = a[i];'), finds=False),
        Sample("a print for tests", kernel('o[i] = a[i];\n#ifdef TESTS\nprintf("%d", i);\n#endif\n'), finds=False),
        Sample("a print of an error", kernel('float v = a[i]; if (v < 0) printf("%f", v); o[i] = v;'), finds=False),
        Sample("into a buffer", kernel("o[i] = a[i]; snprintf(b, 4, c);", "__device__ char b[4];\n"), finds=False),
    ),
    "sort-per-thread": (
        Sample(
            "exchanges",
            kernel(
                "float v[9]; for (int j = 0; j < 9; ++j) v[j] = a[i + j * n]; for (int p = 0; p < 8; ++p) "
                "for (int j = 0; j < 8 - p; ++j) if (v[j] > v[j + 1]) "
                "{ float t = v[j]; v[j] = v[j + 1]; v[j + 1] = t; } o[i] = v[4];"
            ),
            finds=True,
        ),
        Sample(
            "exchanges by a function",
            kernel(
                "float v[9]; for (int p = 0; p < 8; ++p) for (int j = 0; j < 8 - p; ++j) "
                "if (v[j] > v[j + 1]) swap(&v[j], &v[j + 1]); o[i] = v[4];"
            ),
            finds=True,
        ),
        Sample(
            "insertions",
            kernel(
                "float v[64]; for (int j = 0; j < n; ++j) { float key = a[i + j * n]; int k = j - 1; while (k >= 0 && "
                "v[k] > key) { v[k + 1] = v[k]; --k; } v[k + 1] = key; } o[i] = v[n / 2];"
            ),
            finds=True,
        ),
        Sample(
            "a smallest one",
            kernel("float v = a[i]; for (int j = 0; j < n; ++j) if (a[i + j * n] < v) v = a[i + j * n]; o[i] = v;"),
            finds=False,
        ),
        Sample(
            "threads that exchange together",
            kernel(
                "__shared__ float v[256]; v[threadIdx.x] = a[i]; for (int p = 0; p < n; ++p) { __syncthreads(); "
                "int j = 2 * threadIdx.x; if (v[j] > v[j + 1]) "
                "{ float t = v[j]; v[j] = v[j + 1]; v[j + 1] = t; } } o[i] = v[4];"
            ),
            finds=False,
        ),
    ),
    "all-pairs": (
        Sample(
            "rows that a step works on in place",
            "__global__ void k(int *d, int n, int step) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
            "for (int j = 0; j < n; ++j) d[i * n + j] = min(d[i * n + j], d[i * n + step] + d[step * n + j]); }",
            finds=False,
        ),
        Sample(
            "each against all",
            kernel("float s = 0; for (int j = 0; j < n; ++j) s += fabsf(a[i] - a[j]); o[i] = s;"),
            finds=True,
        ),
        Sample(
            "all against a few constants",
            kernel("float s = 0; for (int j = 0; j < 8; ++j) s += fabsf(a[i] - a[j]); o[i] = s;"),
            finds=False,
        ),
        Sample(
            "a row of a matrix",
            kernel("float s = 0; for (int j = 0; j < n; ++j) s += a[i * n + j]; o[i] = s;"),
            finds=False,
        ),
        Sample(
            "but itself, through a structure",
            "struct S { float *x; int n; };\n__device__ float pull(const S *s, int i, int j);\n"
            f"__global__ void k(const S *s, float *o) {{ {INDEX} float f = 0; if (i < s->n) "
            "for (int j = 0; j < s->n; ++j) { if (j == i) continue; f += pull(s, i, j); } o[i] = f; }",
            finds=True,
        ),
        Sample(
            "those behind it",
            kernel("if (i >= n) return; for (int j = i + 1; j < n; ++j) if (a[i] == a[j]) o[i] = 1;"),
            finds=True,
        ),
        Sample(
            "a row of a matrix but the diagonal",
            kernel("float s = 0; if (i < n) for (int k = 0; k < n; ++k) if (k != i) s += a[i * n + k] * o[k];"),
            finds=False,
        ),
    ),
    "inactive-threads": (
        Sample(
            "elements held against each other",
            kernel(
                "if (a[i] > a[i ^ 1]) for (int j = 0; j < n; ++j) o[i * n + j] = a[j];",
                launch="for (int s = 0; s < n; ++s) k<<<n, 128>>>(a, o, n);",
            ),
            finds=False,
        ),
        Sample(
            "a frontier",
            kernel(
                "if (a[i] > 0.0f) for (int j = 0; j < n; ++j) o[i * n + j] = a[j];",
                launch="for (int s = 0; s < n; ++s) k<<<n, 128>>>(a, o, n);",
            ),
            finds=True,
        ),
        Sample(
            "those without work leave",
            kernel(
                "if (!(a[i] > 0.0f)) return; for (int j = 0; j < n; ++j) o[i * n + j] = a[j];",
                launch="for (int s = 0; s < n; ++s) k<<<n, 128>>>(a, o, n);",
            ),
            finds=True,
        ),
        Sample(
            "launched once",
            kernel(
                "if (a[i] > 0.0f) for (int j = 0; j < n; ++j) o[i * n + j] = a[j];",
                launch="k<<<n, 128>>>(a, o, n);",
            ),
            finds=False,
        ),
        Sample(
            "the launch's bound",
            kernel(
                "if (i < n) for (int j = 0; j < n; ++j) o[i * n + j] = a[j];",
                launch="for (int s = 0; s < n; ++s) k<<<n, 128>>>(a, o, n);",
            ),
            finds=False,
        ),
    ),
    "copies-around-launch": (
        Sample(
            "in and out",
            kernel(
                "o[i] = a[i];",
                launch="cudaMemcpy(a, x, n, cudaMemcpyHostToDevice); k<<<n, 128>>>(a, o, n); "
                "cudaMemcpy(y, o, n, cudaMemcpyDeviceToHost);",
            ),
            finds=True,
        ),
        Sample(
            "many steps between",
            kernel(
                "o[i] = a[i];",
                launch="cudaMemcpy(a, x, n, cudaMemcpyHostToDevice); for (int s = 0; s < n; ++s) k<<<n, 99>>>(a, o, n);"
                " cudaMemcpy(y, o, n, cudaMemcpyDeviceToHost);",
            ),
            finds=False,
        ),
        Sample("no copy", kernel("o[i] = a[i];", launch="k<<<n, 128>>>(a, o, n);"), finds=False),
    ),
    "partial-warps": (
        Sample(
            "a wide block for each row",
            "__global__ void k(float *a, const float *b, int n) { if (threadIdx.x < n) "
            "a[blockIdx.x * n + threadIdx.x] += b[threadIdx.x]; }\n"
            "void f(float *a, float *b, int rows, int n) { k<<<rows, 1024>>>(a, b, n); }",
            finds=True,
        ),
        Sample(
            "a block as wide as the row",
            "__global__ void k(float *a, const float *b, int n) { if (threadIdx.x < n) "
            "a[blockIdx.x * n + threadIdx.x] += b[threadIdx.x]; }\n"
            "void f(float *a, float *b, int rows, int n) { k<<<rows, n>>>(a, b, n); }",
            finds=False,
        ),
        Sample(
            "rows that a wide block strides along",
            "__global__ void k(float *a, const float *b, int n) { for (int c = threadIdx.x; c < n; c += blockDim.x) "
            "a[blockIdx.x * n + c] += b[c]; }\n"
            "void f(float *a, float *b, int rows, int n) { k<<<rows, 1024>>>(a, b, n); }",
            finds=False,
        ),
        Sample("33 threads", kernel("o[i] = a[i];", launch="k<<<64, 33>>>(a, o, n);"), finds=True),
        Sample("64 threads", kernel("o[i] = a[i];", launch="k<<<64, 64>>>(a, o, n);"), finds=False),
    ),
    "divergent-barrier": (
        Sample("under a bound", kernel("if (i < n) { __syncthreads(); o[i] = a[i]; }"), finds=True),
        Sample("under the lane", kernel("if (threadIdx.x < 16) __syncthreads(); o[i] = a[i];"), finds=True),
        Sample("under a parameter", kernel("if (n > 4) __syncthreads(); o[i] = a[i];"), finds=False),
        Sample("after a return", kernel("if (i >= n) return; __syncthreads(); o[i] = a[i];"), finds=False),
    ),
    "lone-thread-loop": (
        Sample(
            "a table, store after store",
            kernel(
                "__shared__ float t[64]; if (threadIdx.x == 0) filled(t); __syncthreads(); o[i] = t[i & 63] * a[i];",
                "__device__ void filled(float *t) { " + " ".join(f"t[{k}] = {k}.5f;" for k in range(64)) + " }\n",
            ),
            finds=True,
        ),
        Sample(
            "a table of a few entries",
            kernel(
                "__shared__ float t[8]; if (threadIdx.x == 0) { "
                + " ".join(f"t[{k}] = {k}.5f;" for k in range(8))
                + " } __syncthreads(); o[i] = t[i & 7] * a[i];",
            ),
            finds=False,
        ),
        Sample(
            "a table that every thread has",
            kernel(
                "float t[64]; filled(t); __syncthreads(); o[i] = t[i & 63] * a[i];",
                "__device__ void filled(float *t) { " + " ".join(f"t[{k}] = {k}.5f;" for k in range(64)) + " }\n",
            ),
            finds=False,
        ),
        Sample(
            "one for all of a block of any size",
            kernel("if (threadIdx.x == 0) for (int j = 0; j < n; ++j) o[blockIdx.x] += a[blockIdx.x * n + j];"),
            finds=True,
        ),
        Sample(
            "a few by one of a block of any size",
            kernel("if (threadIdx.x == 0) for (int j = 0; j < 4; ++j) o[blockIdx.x] += a[blockIdx.x * n + j];"),
            finds=False,
        ),
        Sample(
            "one for all",
            leaders("if (threadIdx.x == 0) for (int j = 0; j < n; ++j) o[i] += a[j];"),
            finds=True,
        ),
        Sample(
            "one for all in shared memory",
            leaders(
                "__shared__ float s[256]; s[threadIdx.x] = a[i]; __syncthreads(); "
                "if (threadIdx.x == 0) for (int j = 0; j < 256; ++j) o[blockIdx.x] += s[j];"
            ),
            finds=True,
        ),
        Sample(
            "a few partial sums",
            leaders("if (threadIdx.x == 0) for (int j = 0; j < 8; ++j) o[i] += a[j];"),
            finds=False,
        ),
        Sample(
            "one block",
            leaders("if (blockIdx.x == 0) for (int j = i; j < n; j += 256) o[j] += a[j];"),
            finds=False,
        ),
    ),
}  # fmt: skip
