# SPDX-License-Identifier: Apache-2.0
"""Filters and stencils with their window and its halo in shared memory."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

WH = "  int w = atoi(argv[1]), h = atoi(argv[2]);\n"
BLUR = """
#define RADIUS 2
#define WIDTH (2 * RADIUS + 1)
__constant__ float d_filter[WIDTH * WIDTH];
__global__ void blur(const unsigned char* src, unsigned char* dst, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) {
        float sum = 0.0f;
        for (int fy = -RADIUS; fy <= RADIUS; fy++) {
            for (int fx = -RADIUS; fx <= RADIUS; fx++) {
                int sx = min(max(x + fx, 0), w - 1);
                int sy = min(max(y + fy, 0), h - 1);
                sum += src[sy * w + sx] * d_filter[(fy + RADIUS) * WIDTH + fx + RADIUS];
            }
        }
        dst[y * w + x] = (unsigned char)(sum + 0.5f);
    }
}
"""
BLUR_MAIN = (
    WH + "  Device<unsigned char> s(w * h), d(w * h, 2); std::vector<float> f(WIDTH * WIDTH, 1.0f / 32);\n"
    "  cudaMemcpyToSymbol(d_filter, f.data(), f.size() * sizeof(float));\n"
    "  dim3 block(16, 16), grid((w + block.x - 1) / block.x, (h + block.y - 1) / block.y);\n"
    "  blur<<<grid, block>>>(s, d, w, h); d.show();"
)
PROGRAMS = {
    "a blur that clamps": (BLUR, BLUR_MAIN),
    "a stencil of single accesses, the boundary kept out": (
        """
#define IDX(i, j, nx) ((i) + (j) * (nx))
__global__ void heat(const double* u, double* next, int nx, int ny, double alpha) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i > 0 && i < nx - 1 && j > 0 && j < ny - 1) {
    int c = IDX(i, j, nx);
    next[c] = u[c] + alpha * (u[c - 1] + u[c + 1] + u[IDX(i, j - 1, nx)] + u[IDX(i, j + 1, nx)] - 4.0 * u[c]);
  }
}
""",
        WH + "  Device<double> a(w * h), b(w * h, 2); dim3 t(8, 16);\n"
        "  heat<<<dim3((w + 7) / 8, (h + 15) / 16), t>>>(a, b, w, h, 0.25); b.show();",
    ),
    "interior outputs, counted from one": (
        """
__global__ void laplace(float* out, const float* in, int nx, int ny) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 1;
  int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (x >= nx - 1 || y >= ny - 1) return;
  out[y * nx + x] = in[(y - 1) * nx + x] + in[(y + 1) * nx + x] + in[y * nx + x - 1] + in[y * nx + x + 1];
}
""",
        WH + "  Device<float> a(w * h), b(w * h, 2); dim3 t(16, 4), g((w + 13) / 16, (h + 1) / 4);\n"
        "  laplace<<<g, t>>>(b, a, w, h); b.show();",
    ),
    "zero padding by conditions": (
        """
#define K 3
__global__ void conv(const float* in, const float* weight, float* out, int H, int W) {
  int c = threadIdx.x + blockIdx.x * blockDim.x, r = threadIdx.y + blockIdx.y * blockDim.y;
  if (r >= H || c >= W) return;
  float acc = 0.0f;
  for (int i = 0; i < K; ++i) {
    int yy = r + i - K / 2;
    if (yy < 0 || yy >= H) continue;
    for (int j = 0; j < K; ++j) {
      int xx = c + j - K / 2;
      if (xx >= 0 && xx < W) acc += in[yy * W + xx] * weight[i * K + j];
    }
  }
  out[r * W + c] = acc;
}
""",
        WH + "  Device<float> a(w * h), k(9, 3), b(w * h, 2); dim3 t(8, 8), g((w + 7) / 8, (h + 7) / 8);\n"
        "  conv<<<g, t>>>(a, k, b, h, w); b.show();",
    ),
    "one axis": (
        """
template <int R>
__global__ void smooth(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    int total = 0;
    for (int d = -7; d <= 7; ++d) {
      int at = i + d;
      total += at >= 0 && at < n ? in[at] : 0;
    }
    out[i] = total / R;
  }
}
""",
        WH
        + "  Device<int> a(w * h), b(w * h, 2); smooth<4><<<(w * h + 63) / 64, 64>>>(a, b, w * h); b.show();",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_windows_are_tiled(name: str) -> None:
    after = holds("halo-tile", program(*PROGRAMS[name]), (37, 30), (70, 7), relative=1e-5, absolute=1e-5)
    assert "__shared__" in after
    assert rewritten("halo-tile", after)[0].refused


LAUNCHED = (
    BLUR + "void run(unsigned char* p, int w, int h) { dim3 b(16, 16), g((w + 15) / 16, (h + 15) / 16);\n"
)
LAUNCHED += "  blur<<<g, b>>>(p, p, w, h); }\n"
REFUSED = {
    "one place": LAUNCHED.replace("y + fy", "y").replace("x + fx", "x"),
    "a window of no constant size": LAUNCHED.replace("fy <= RADIUS", "fy <= h"),
    "data chooses": LAUNCHED.replace("y + fy", "y + src[fy]"),
    "what it writes": LAUNCHED.replace("dst[", "src["),
    "a block that is not known": LAUNCHED.replace("16, 16", "w, 1"),
    "no launch": BLUR,
    "elements under different conditions": LAUNCHED.replace(
        "sum += src", "if (x > 2) sum += src[sy * w + sx]; else sum += src"
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_windows_are_left_alone(name: str) -> None:
    assert rewritten("halo-tile", REFUSED[name])[0].refused


DEPTHWISE = """
template <int kSize>
__global__ void depthwise(const float* input, const float* weight, float* output, int channels, int height, int width) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= channels * height * width) return;
  int w = index % width;
  int h = (index / width) % height;
  int c = index / width / height;
  const float* plane = input + (size_t)c * height * width;
  float value = 0.0f;
  for (int i = 0; i < kSize; i++) {
    for (int j = 0; j < kSize; j++) {
      int hi = h - kSize / 2 + i;
      int wi = w - kSize / 2 + j;
      if (hi >= 0 && hi < height && wi >= 0 && wi < width)
        value += plane[hi * width + wi] * weight[(c * kSize + i) * kSize + j];
    }
  }
  output[index] = value;
}
"""
DEPTHWISE_MAIN = (
    WH
    + "  constexpr int K = 5; Device<float> x(3 * w * h), k(3 * K * K, 2), y(3 * w * h, 3); int n = 3 * w * h;\n"
    "  depthwise<K><<<(n + 127) / 128, 128>>>(x, k, y, 3, h, w); y.show();"
)


def test_a_window_of_a_templates_size_has_zeros_around_it() -> None:
    after = holds("outputs-in-patches", program(DEPTHWISE, DEPTHWISE_MAIN), (35, 9), (3, 2))
    assert ": 0.0f;" in after and after.count("hi < height") == after.count("int hi") == 1


def test_a_condition_stays_where_a_zero_counts() -> None:
    least = DEPTHWISE.replace("value += plane", "value = fminf(value, plane").replace("+ j];\n", "+ j]);\n")
    after = holds("halo-tile", rewritten("index-into-axes", program(least, DEPTHWISE_MAIN))[1], (35, 9))
    assert after.count("hi < height") == 2


def test_launches_that_give_a_template_other_sizes_are_left_alone() -> None:
    both = DEPTHWISE_MAIN.replace(
        "y.show();", "depthwise<3><<<(n + 127) / 128, 128>>>(x, k, y, 3, h, w); y.show();"
    )
    text = rewritten("index-into-axes", program(DEPTHWISE, both))[1]
    assert "constant size" in rewritten("halo-tile", text)[0].refused


SOBEL = """
__global__ void edges(const unsigned char* in, unsigned char* out, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < w && y < h) {
    int gx = 0;
    const int kx[3][3] = {{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}};
    for (int dy = -1; dy <= 1; ++dy)
      for (int dx = -1; dx <= 1; ++dx)
        gx += kx[dy + 1][dx + 1] * in[min(max(y + dy, 0), h - 1) * w + min(max(x + dx, 0), w - 1)];
    out[y * w + x] = min(abs(gx), 255);
  }
}
void run(unsigned char* p, unsigned char* q, int w, int h) {
  dim3 b(16, 16), g((w + 15) / 16, (h + 15) / 16);
  edges<<<g, b>>>(p, q, w, h);
}
"""
FIR = """
#define TAPS 17
__global__ void fir(const float* weights, const float* in, float* out, unsigned int n) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
  for (int k = 0; k < TAPS; ++k) {
    int at = (int)i - k;
    if (at >= 0) sum += weights[k] * in[at];
  }
  out[i] = sum;
}
void run(float* f, float* p, float* q, int n) { fir<<<(n + 127) / 128, 128>>>(f, p, q, n); }
"""
FIR_MAIN = "  int n = atoi(argv[1]); Device<float> f(17), x(n), y(n, 2); run(f, x, y, n); y.show();"
SOBEL_MAIN = WH + "  Device<unsigned char> s(w * h), d(w * h, 2); run(s, d, w, h); d.show();\n"


def test_weights_of_the_threads_own_stand_inside() -> None:
    holds("halo-tile", program(SOBEL, SOBEL_MAIN), (45, 37))


def test_an_unsigned_number_is_signed_in_the_halo() -> None:
    after = holds("halo-tile", program(FIR, FIR_MAIN), (700,), (9,), relative=1e-5, absolute=1e-5)
    assert "int i = i0 + t - 16;" in after and "tileIn" in after  # of two arrays, the one that is a window
    compared = (
        FIR.replace("int at = (int)i - k;", "").replace("at >= 0", "i >= k").replace("in[at]", "in[i - k]")
    )
    assert not rewritten("halo-tile", program(compared, FIR_MAIN))[0].edits
