# SPDX-License-Identifier: Apache-2.0
"""Filters, convolutions and weighted sums with several outputs a thread."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

WH = "  int w = atoi(argv[1]), h = atoi(argv[2]);\n"
CONV = """
__global__ void conv2d(const float* input, const float* filters, const float* bias, float* output, int C, int H, int W,
                       int K, int R) {
  int OH = H - R + 1, OW = W - R + 1;
  int ow = blockIdx.x * blockDim.x + threadIdx.x;
  int oh = blockIdx.y * blockDim.y + threadIdx.y;
  int k = blockIdx.z;
  if (ow >= OW || oh >= OH) return;
  float sum = bias[k];
  for (int c = 0; c < C; c++)
    for (int r = 0; r < R; r++)
      for (int s = 0; s < R; s++)
        sum += input[(c * H + oh + r) * W + ow + s] * filters[((k * C + c) * R + r) * R + s];
  output[(k * OH + oh) * OW + ow] = sum;
}
"""
PROGRAMS = {
    "a convolution of planes": (
        CONV,
        WH + "  Device<float> in(3 * w * h), f(2 * 3 * 9, 2), b(2, 3), out(2 * w * h, 4);\n"
        "  dim3 block(16, 16, 1), grid((w - 2 + 15) / 16, (h - 2 + 15) / 16, 2);\n"
        "  conv2d<<<grid, block>>>(in, f, b, out, 3, h, w, 2, 3); out.show();",
    ),
    "a blur that clamps": (
        """
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
""",
        WH
        + "  Device<unsigned char> s(w * h), d(w * h, 2); std::vector<float> f(WIDTH * WIDTH, 1.0f / 32);\n"
        "  cudaMemcpyToSymbol(d_filter, f.data(), f.size() * sizeof(float));\n"
        "  dim3 block(16, 16), grid((w + block.x - 1) / block.x, (h + block.y - 1) / block.y);\n"
        "  blur<<<grid, block>>>(s, d, w, h); d.show();",
    ),
    "zero padding by continue": (
        """
__global__ void filter2D(const double *img, const double *ker, double *res, int rows, int cols, int ks)
{
    unsigned int c = threadIdx.x + blockIdx.x * blockDim.x, r = threadIdx.y + blockIdx.y * blockDim.y;
    if (r < rows && c < cols)
    {
        double acc = 0.0;
        int half = ks / 2;
        for (int i = 0; i < ks; ++i) {
            int yy = (int)r + i - half;
            if (yy < 0 || yy >= rows) continue;
            for (int j = 0; j < ks; ++j) {
                int xx = (int)c + j - half;
                if (xx < 0 || xx >= cols) continue;
                acc += img[yy * cols + xx] * ker[i * ks + j];
            }
        }
        res[r * cols + c] = acc;
    }
}
""",
        WH + "  Device<double> a(w * h), k(25, 2), o(w * h, 3); dim3 t(8, 8);\n"
        "  filter2D<<<dim3((w + 7) / 8, (h + 7) / 8), t>>>(a, k, o, h, w, 5); o.show();",
    ),
    "taps around a condition, one axis": (
        """
__global__ void fir(const float* x, const float* taps, float* y, int n, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float total = 0.0f, weight = 0.0f;
  for (int t = 0; t < count; ++t) {
    float w = taps[t];
    if (i - t >= 0) {
      total += w * x[i - t];
      weight += w * w;
    }
  }
  y[i] = weight > 0.5f ? total / weight : total;
}
""",
        WH
        + "  Device<float> x(w), t(9, 2), y(w, 3); fir<<<(w + 63) / 64, 64>>>(x, t, y, w, 9); y.show(); (void)h;",
    ),
    "an inner loop under a condition": (
        """
__global__ void pool(const float* in, float* out, int width, int height, int size) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (col >= width) return;
  if (row >= height) return;
  float best = -1e30f;
  for (int j = -size; j <= size; ++j) {
    int yy = row + j;
    if (yy >= 0 && yy < height) {
      for (int i = -size; i <= size; ++i) {
        int xx = col + i;
        if (xx >= 0 && xx < width) best = fmaxf(best, in[yy * width + xx]);
      }
    }
  }
  out[row * width + col] = best;
}
""",
        WH + "  Device<float> a(w * h), o(w * h, 3); dim3 t(16, 4), g((w + 15) / 16, (h + 3) / 4);\n"
        "  pool<<<g, t>>>(a, o, w, h, 2); o.show();",
    ),
    "declarations between loops": (
        """
__global__ void rows(const float* x, float* y, int n, int c) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < n) {
    const float* in = x + r * c;
    float* out = y + r * c;
    float best = -INFINITY;
    for (int j = 0; j < c; j++) {
      if (in[j] > best) { best = in[j]; }
    }
    float sum = 0.0f;
    for (int j = 0; j < c; j++) { sum += expf(in[j] - best); }
    const float scale = 1.0f / sum;
    for (int j = 0; j < c; j++) { out[j] = expf(in[j] - best) * scale; }
  }
}
""",
        WH + "  Device<float> a(w * h), o(w * h, 3); rows<<<(w + 31) / 32, 32>>>(a, o, w, h); o.show();",
    ),
}


PROGRAMS["a state that a function changes"] = (
    """
__device__ inline float draw(unsigned& state, int* drawn) {
  state = state * 1664525u + 1013904223u;
  *drawn += 1;
  return (state >> 8) * (1.0f / 16777216.0f);
}
__global__ void walks(float* out, int n, int steps, unsigned seed) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned state = seed + 77u * i;
  int drawn = 0;
  float sum = 0.0f;
  for (int s = 0; s < steps; ++s) sum += draw(state, &drawn);
  out[i] = sum + drawn;
}
""",
    WH + "  Device<float> o(w * h); walks<<<(w * h + 63) / 64, 64>>>(o, w * h, 9, 5u); o.show();",
)


PROGRAMS["a sum in each step of a loop, behind a pointer and a test of its own"] = (
    """
__global__ void alike(const float* padded, float* out, int width, int height, int reach) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int pitch = width + 4;
  const float* here = padded + (y + 2) * pitch + x + 2;
  float sum = 0.0f, weights = 0.0f;
  for (int dy = -reach; dy <= reach; dy++) {
    int yy = y + dy;
    if (yy < 0 || yy >= height) continue;
    const float* other = here + dy * pitch;
    float apart = 0.0f;
    int count = 1;
    for (int i = -1; i <= 1; i++) {
      float d = here[i] - other[i];
      apart += d * d;
      count++;
    }
    float w = 1.0f / (1.0f + apart) + count;
    sum += w * other[0];
    weights += w;
  }
  out[y * width + x] = sum / weights;
}
""",
    WH + "  Device<float> a((w + 4) * (h + 4)), o(w * h, 3); dim3 t(16, 4), g((w + 15) / 16, (h + 3) / 4);\n"
    "  alike<<<g, t>>>(a, o, w, h, 2); o.show();",
)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled(2)
def test_several_outputs_are_worked_out(name: str) -> None:
    after = holds(
        "several-outputs", program(*PROGRAMS[name]), (37, 30), (70, 7), relative=1e-5, absolute=1e-5
    )
    assert "kOutputs" in after or "OUTPUTS" in after
    assert rewritten("several-outputs", after)[0].refused


LAUNCHED = CONV + "void run(float* p, dim3 g, dim3 b) { conv2d<<<g, b>>>(p, p, p, p, 3, 9, 9, 2, 3); }\n"
REFUSED = {
    "its length differs": LAUNCHED.replace("c < C", "c < oh"),
    "left early": LAUNCHED.replace("        sum +=", "        if (sum > 9) break; else sum +="),
    "lower limits": LAUNCHED.replace("ow >= OW ||", "ow < 1 || ow >= OW ||"),
    "threads told apart": LAUNCHED.replace("* filters", "* threadIdx.x * filters"),
    "no launch": CONV,
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_loops_are_left_alone(name: str) -> None:
    assert rewritten("several-outputs", REFUSED[name])[0].refused


BATCHED = """
__global__ void batched(const float* A, const float* B, float* C, int n) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= n || col >= n) return;
  A += blockIdx.z * n * n;
  B += blockIdx.z * n * n;
  C += blockIdx.z * n * n;
  float sum = 0.0f;
  for (int k = 0; k < n; ++k) sum += A[row * n + k] * B[k * n + col];
  C[row * n + col] = sum;
}
"""
RUN_BATCHED = (
    "  int b = atoi(argv[1]), n = atoi(argv[2]);\n"
    "  Device<float> x(b * n * n), y(b * n * n, 2), z(b * n * n, 3);\n"
    "  batched<<<dim3((n + 15) / 16, (n + 15) / 16, b), dim3(16, 16)>>>(x, y, z, n); z.show();"
)


def test_a_pointer_goes_to_its_problem_once() -> None:
    after = holds("several-outputs", program(BATCHED, RUN_BATCHED), (3, 21))
    assert after.count("A += blockIdx.z * n * n;") == 1


def test_a_pointer_that_moves_in_each_step_is_left_alone() -> None:
    moving = BATCHED.replace("sum += A", "A += 0, sum += A")
    assert "given" in rewritten("several-outputs", program(moving, RUN_BATCHED))[0].refused


def test_a_pointer_that_goes_to_its_own_output_is_right() -> None:
    own = BATCHED.replace("A += blockIdx.z * n * n;", "A += (size_t)row * n;").replace(
        "A[row * n + k]", "A[k]"
    )
    after = holds("several-outputs", program(own, RUN_BATCHED), (1, 21))
    assert "float sum[kOutputs]" in after


WALKED = """
__global__ void down(const float* in, const float* w, float* out, int width, int height, int size) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const float* p = in + y * width + x;
  float sum = 0.0f;
  for (int j = 0; j < size; ++j) sum += w[j] * *p, p += width;
  out[y * width + x] = sum;
}
"""
RUN_WALKED = WH + (
    "  Device<float> x((h + 5) * w), f(5, 2), out(w * h, 3);\n"
    "  down<<<dim3((w + 31) / 32, (h + 7) / 8), dim3(32, 8)>>>(x, f, out, w, h, 5); out.show();"
)


def test_a_variable_that_begins_as_another_and_changes_is_left_alone() -> None:
    code, main = PROGRAMS["a sum in each step of a loop, behind a pointer and a test of its own"]
    found = rewritten("several-outputs", program(code.replace("apart = 0.0f", "apart = other[0]"), main))
    assert "kept for each output" in found[0].refused


def test_pointers_of_several_outputs_stay_const() -> None:
    after = holds("several-outputs", program(WALKED, RUN_WALKED), (37, 21))
    assert "const float *p[kOutputs];" in after


def test_a_pointer_of_an_unwritten_type_is_left_alone() -> None:
    untold = WALKED.replace("const float* p = ", "auto p = (const float*)")
    assert "type of p" in rewritten("several-outputs", program(untold, RUN_WALKED))[0].refused
