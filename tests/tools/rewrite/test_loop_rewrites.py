# SPDX-License-Identifier: Apache-2.0
"""Loops that go into the grid or to neighbouring threads, and sums that leave memory, are what they were."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten
from tests.tools.rewrite.row_programs import RC, kernel_of

RUNS = ((37, 71), (5, 3), (70, 33))

GRIDS = {
    "channels of an image": (
        "loop-into-grid",
        """
__global__ void normalize(const float* in, const float* mean, float* out, int c, int h, int w) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    const int plane = h * w;
    for (int k = 0; k < c; k++) {
        int i = k * plane + y * w + x;
        out[i] = in[i] - mean[k];
    }
}
""",
        RC + "  Device<float> x(3 * rows * cols), m(3, 2), y(3 * rows * cols, 3);\n"
        "  dim3 block(16, 4), grid((cols + 15) / 16, (rows + 3) / 4);\n"
        "  normalize<<<grid, block>>>(x, m, y, 3, rows, cols); y.show();",
    ),
    "outputs of a product, one row a thread": (
        "loop-into-grid",
        """
#define FEATURES 7
__global__ void linear(const float* x, const float* w, float* y, int batch, int in) {
  int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b < batch) {
    for (int o = 0; o < FEATURES; ++o) {
      float s = 0.0f;
      for (int i = 0; i < in; ++i) s += x[b * in + i] * w[o * in + i];
      y[b * FEATURES + o] = s;
    }
  }
}
""",
        RC + "  Device<float> x(rows * cols), w(FEATURES * cols, 2), y(rows * FEATURES, 3);\n"
        "  linear<<<(rows + 63) / 64, 64>>>(x, w, y, rows, cols); y.show();",
    ),
    "a line of an image, walked by a thread": (
        "loop-into-threads",
        """
__global__ void blur(const unsigned char* in, unsigned char* out, int w, int h) {
    int row = threadIdx.x + blockIdx.x * blockDim.x;
    if (row < h) {
        for (int x = 1; x < w - 1; x++)
            out[row * w + x] = (in[row * w + x - 1] + 2 * in[row * w + x] + in[row * w + x + 1]) / 4;
    }
}
""",
        RC + "  Device<unsigned char> x(rows * cols), y(rows * cols, 2);\n"
        "  blur<<<(rows + 31) / 32, 32>>>(x, y, cols, rows); y.show();",
    ),
    "a volume, walked along its lines": (
        "loop-into-threads",
        """
__global__ void laplace(float* out, const float* in, int nx, int ny, int nz) {
  int y = blockIdx.x * blockDim.x + threadIdx.x + 1;
  int z = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (y >= ny - 1 || z >= nz - 1) return;
  for (int x = 1; x < nx - 1; x++) {
    int p = (z * ny + y) * nx + x;
    out[p] = in[p - 1] + in[p + 1] + in[p - nx] + in[p + nx] + in[p - nx * ny] + in[p + nx * ny] - 6 * in[p];
  }
}
""",
        RC + "  Device<float> x(rows * cols * 6), y(rows * cols * 6, 2);\n"
        "  dim3 block(32, 4), grid((rows + 31) / 32, (6 + 3) / 4);\n"
        "  laplace<<<grid, block>>>(y, x, cols, rows, 6); y.show();",
    ),
    "one block": (
        "spread-over-grid",
        """
__global__ void saxpy(const float* x, float* y, float a, int n) {
  int tid = threadIdx.x;
  for (int i = tid; i < n; i += blockDim.x) {
    y[i] = a * x[i] + y[i];
  }
}
""",
        RC
        + "  int n = rows * cols; Device<float> x(n), y(n, 3); saxpy<<<1, 128>>>(x, y, 2.0f, n); y.show();",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", GRIDS)
def test_loops_go_into_the_grid(name: str) -> None:
    slug, kernel, main = GRIDS[name]
    holds(slug, program(kernel, main), *RUNS)


BESIDE = {
    "a fold before it": kernel_of(
        "for (int j = 0; j < m; ++j) s += x[j];", after="for (int j = 0; j < m; ++j) y[j * n + r] = s;"
    ),
    "a write beside it": kernel_of("for (int j = 0; j < m; ++j) y[j * n + r] = x[j];", after="z[r] = 1;"),
    "a fold": kernel_of("for (int j = 0; j < m; ++j) s += x[j];"),
    "a bound that data tell": kernel_of("for (int j = 0; j < z[r]; ++j) y[j * n + r] = x[j];", after=""),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_loop_that_is_not_all_is_left(name: str) -> None:
    assert rewritten("loop-into-grid", BESIDE[name])[0].refused


REGISTERS = {
    "a product that adds up in memory": (
        """
__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M && col < N) {
        C[row * N + col] = 0.0f;
        for (int k = 0; k < K; ++k)
            C[row * N + col] += A[row * K + k] * B[k * N + col];
    }
}
""",
        RC + "  Device<float> a(rows * 9), b(9 * cols, 2), c(rows * cols, 3);\n"
        "  dim3 block(16, 8), grid((cols + 15) / 16, (rows + 7) / 8);\n"
        "  matmul<<<grid, block>>>(a, b, c, rows, cols, 9); c.show();",
    ),
    "what was there, changed before": (
        """
__global__ void scaled(const float* x, float* y, float by, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j;
  if (i < rows) {
    y[i] *= by + 1;
    for (j = 0; j < cols; j++) y[i] = y[i] - x[j * rows + i];
  }
}
""",
        RC + "  Device<float> x(rows * cols), y(rows, 2);\n"
        "  scaled<<<(rows + 63) / 64, 64>>>(x, y, 0.5f, rows, cols); y.show();",
    ),
    "nested loops, beside what was there": (
        """
__global__ void pool(const double* in, double* out, int n, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int a = 0; a < k; ++a)
    for (int b = 0; b < k; ++b) {
      int sum = a * k + b;
      out[i] -= in[(i + sum) % n];
    }
  out[i] *= 2;
}
""",
        RC + "  int n = rows * cols; Device<double> x(n), y(n, 2);\n"
        "  pool<<<(n + 63) / 64, 64>>>(x, y, n, 3); y.show();",
    ),
    "members of a structure": (
        """
struct Force { float x, y; int hits; };
__global__ void pull(const float2* at, Force* force, int n, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  force[i].x = 0;
  force[i].y = 1.5f;
  for (int j = 0; j < k; ++j) {
    float2 p = at[(i + j * j) % n];
    if (p.x < 1) {
      force[i].x += p.x - at[i].x;
      force[i].y = force[i].y + p.y - at[i].y;
      force[i].hits++;
    }
  }
}
__global__ void show(const Force* force, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = force[i].x + 3 * force[i].y + 7 * force[i].hits;
}
""",
        RC
        + "  int n = rows * cols; Device<float> x(2 * n), out(n, 2); Force* f; cudaMalloc((void**)&f, n * 12);\n"
        "  cudaMemset(f, 0, n * 12); pull<<<(n + 63) / 64, 64>>>((const float2*)x.data, f, n, 5);\n"
        "  show<<<(n + 63) / 64, 64>>>(f, out, n); out.show();",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", REGISTERS)
def test_sums_are_kept_in_registers(name: str) -> None:
    after = holds("sum-in-register", program(*REGISTERS[name]), *RUNS)
    assert rewritten("sum-in-register", after)[0].refused


FORCE = "struct F { float x, y; float both[2]; };\n" + kernel_of(
    "for (int j = 0; j < m; ++j) f[r].x += y[j];", after=""
).replace("(", "(F* f, ", 1)
MEMORY = {
    "another element's member is set": FORCE.replace("y[j];", "f[j].x;"),
    "the structure is read": FORCE.replace("y[j];", "sum(f[r]);"),
    "the member is an array": FORCE.replace("f[r].x", "f[r].both[0]"),
    "another element is read": kernel_of("for (int j = 0; j < m; ++j) y[r] += y[j];"),
    "the element moves": kernel_of("for (int j = 0; j < m; ++j) y[r * m + j] += x[j];", after=""),
    "a way out": kernel_of("for (int j = 0; j < m; ++j) { y[r] += x[j]; if (x[j] > 3) return; }"),
    "the pointer is passed on": kernel_of("for (int j = 0; j < m; ++j) { z[r] += 1; next(z); }", after=""),
}


@pytest.mark.parametrize("name", MEMORY)
def test_what_others_may_see_stays_in_memory(name: str) -> None:
    assert rewritten("sum-in-register", MEMORY[name])[0].refused
