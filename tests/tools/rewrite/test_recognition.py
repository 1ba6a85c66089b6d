# SPDX-License-Identifier: Apache-2.0
"""Spellings that rewrites recognise, and those whose meaning they must not mistake."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

N = "  int n = atoi(argv[1]);\n"


def test_a_block_whose_size_its_own_declaration_uses_is_widened_at_the_launch() -> None:
    code = """
__global__ void sums(const float* in, float* out, int w, int h, int k) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  float sum = 0;
  for (int j = 0; j < k; ++j) sum += in[(y * w + x) * k + j];
  out[y * w + x] = sum;
}
"""
    main = N + (
        "  int w = 2 * n; Device<float> a(w * n * 40), b(w * n, 2);\n"
        "  dim3 t(8, 4), g((w + t.x - 1) / t.x, (n + t.y - 1) / t.y);\n"
        "  sums<<<g, t>>>(a, b, w, n, 40); b.show();"
    )
    holds("warp-per-row", program(code, main), (5,), relative=1e-5)


def test_a_row_of_a_block_is_no_number_of_threads() -> None:
    code = """
__global__ void total(const float* in, float* out, unsigned cols) {
  unsigned row = blockIdx.x;
  if (threadIdx.x == 0) {
    float sum = 0;
    for (unsigned j = 0; j < cols; ++j) sum += in[row * cols + j];
    out[row] = sum;
  }
}
"""
    main = N + "  Device<float> a(n * 70), b(n, 2); total<<<n, 32>>>(a, b, 70); b.show();"
    assert "blockIdx" in rewritten("warp-per-row", program(code, main))[0].refused
    holds("share-serial-section", program(code, main), (3,), relative=1e-5)


def test_sums_of_an_inner_loop_are_kept_for_each_output() -> None:
    code = """
__global__ void nearest(const float* points, const float* centres, int* labels, int n, int k, int d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float best = 1e30f;
  int label = -1;
  for (int c = 0; c < k; ++c) {
    float dist = 0;
    for (int f = 0; f < d; ++f) {
      float t = points[i * d + f] - centres[c * d + f];
      dist += t * t;
    }
    if (dist < best) { best = dist; label = c; }
  }
  labels[i] = label;
}
"""
    main = N + (
        "  Device<float> p(n * 3), c(5 * 3, 2); Device<int> l(n, 3);\n"
        "  nearest<<<(n + 63) / 64, 64>>>(p, c, l, n, 5, 3); l.show();"
    )
    after = holds("several-outputs", program(code, main), (300,))
    assert "dist[kOutputs]" in after
    assert "inner loop" in rewritten("register-tile", program(code, main))[0].refused


def test_an_access_that_a_condition_keeps_in_bounds_is_no_operand() -> None:
    code = """
__global__ void stencil(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int o = -7; o <= 7; o++) {
    int k = i + o;
    if (k >= 0 && k < n) sum += in[k];
  }
  out[i] = sum;
}
"""
    main = N + "  Device<float> a(n), b(n, 2); stencil<<<(n + 63) / 64, 64>>>(a, b, n); b.show();"
    assert "keeps an access" in rewritten("register-tile", program(code, main))[0].refused


def test_a_walk_down_columns_keeps_its_neighbours() -> None:
    code = """
__global__ void norms(const float* m, float* out, int rows, int cols) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= cols) return;
  float sum = 0;
  for (int i = 0; i < rows; i++) sum += m[i * cols + j] * m[i * cols + j];
  out[j] = sqrtf(sum);
}
"""
    main = N + "  Device<float> m(n * 40), o(40, 2); norms<<<1, 64>>>(m, o, n, 40); o.show();"
    assert "neighbouring columns" in rewritten("warp-per-row", program(code, main))[0].refused
    holds("split-columns", program(code, main), (70,), relative=1e-5)


def test_histograms_of_colours_are_as_long_as_the_longest_index() -> None:
    code = """
__global__ void colours(const uchar3* pixels, unsigned int* hist, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uchar3 p = pixels[i];
  atomicAdd(&hist[p.x], 1);
  atomicAdd(&hist[256 + p.y / 2], 1);
  atomicAdd(&hist[3 * p.z], 1);
}
"""
    main = N + (
        "  std::vector<uchar3> h(n); for (int i = 0; i < n; ++i) { h[i].x = i * 7; h[i].y = i * 3; h[i].z = i * 11; }\n"
        "  uchar3* d; cudaMalloc(&d, n * 3); cudaMemcpy(d, h.data(), n * 3, cudaMemcpyHostToDevice);\n"
        "  Device<unsigned> o(766, 2); cudaMemset(o.data, 0, 766 * 4);\n"
        "  colours<<<(n + 63) / 64, 64>>>(d, o, n); o.show();"
    )
    after = holds("private-histogram", program(code, main), (900,))
    assert "[766]" in after


def test_what_the_kernel_works_out_once_is_known_to_the_host() -> None:
    code = """
__global__ void filter(const float* in, const float* weights, float* out, int size, int taps) {
  int outputs = size - taps + 1;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < outputs) {
    float sum = 0.0f;
    for (int k = 0; k < taps; ++k) sum += weights[k] * in[i + k];
    out[i] = sum;
  }
}
"""
    main = N + (
        "  Device<float> a(n), w(9, 2), b(n, 3); filter<<<(n - 9 + 256) / 256, 256>>>(a, w, b, n, 9); b.show();"
    )
    after = rewritten("register-tile", program(code, main))
    assert "the host does not know" not in after[0].refused


BATCH_NORM = """
__global__ void normalise(const float* x, const float* gamma, float* y, int N, int C, int H, int W) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= C) return;
    float sum = 0.0f, sq = 0.0f;
    for (int n = 0; n < N; n++) {
        for (int h = 0; h < H; h++) {
            for (int w = 0; w < W; w++) {
                float v = x[((n * C + c) * H + h) * W + w];
                sum += v;
                sq += v * v;
            }
        }
    }
    float mean = sum / (N * H * W);
    float var = sq / (N * H * W) - mean * mean;
    for (int n = 0; n < N; n++)
        for (int h = 0; h < H; h++)
            for (int w = 0; w < W; w++) {
                int i = ((n * C + c) * H + h) * W + w;
                y[i] = gamma[c] * (x[i] - mean) * rsqrtf(var + 1e-5f);
            }
}
"""
RUN_NORM = N + (
    "  int C = 3, H = 5, W = 7; Device<float> x(n * C * H * W), g(C, 2), y(n * C * H * W, 3);\n"
    "  normalise<<<1, 64>>>(x, g, y, n, C, H, W); y.show();"
)


def test_rows_and_columns_that_lie_side_by_side_are_dealt_out_together() -> None:
    for slug in ("block-per-row", "warp-per-row"):
        after = holds(slug, program(BATCH_NORM, RUN_NORM), (2,), relative=1e-4, absolute=1e-5)
        assert after.count("hw < H * W") == 2 and "((n * C + c) * H) * W + hw" in after


def test_rows_with_a_pitch_of_their_own_stay_apart() -> None:
    apart = BATCH_NORM.replace("* H + h) * W + w", "* H + h) * (W + 1) + w")
    after = rewritten("block-per-row", program(apart, RUN_NORM))[1]
    assert "hw" not in after and "h < H" in after


SOFTMAX = """
__global__ void softmax(const T* input, T* output, unsigned rows, unsigned cols) {
  unsigned row = ROW;
  GUARD
    float most = -INFINITY;
    for (unsigned j = 0; j < cols; ++j) most = fmaxf(most, (float)input[row * cols + j]);
    float sum = 0.0f;
    for (unsigned j = 0; j < cols; ++j) sum += expf((float)input[row * cols + j] - most);
    for (unsigned j = 0; j < cols; ++j) output[row * cols + j] = T(expf((float)input[row * cols + j] - most) / sum);
  }
}
"""


@pytest.mark.parametrize("kind", ["float", "half"])
@pytest.mark.parametrize("slug", ["warp-row-kept", "block-row-kept", "warp-row-vectors", "block-row-vectors"])
@pytest.mark.sampled(3)
def test_rows_of_a_softmax_in_one_step(slug: str, kind: str) -> None:
    code = SOFTMAX.replace("ROW", "blockIdx.x * blockDim.x + threadIdx.x").replace(
        "GUARD", "if (row < rows) {"
    )
    main = N + (
        f"  Device<{kind}> a(n * 261), b(n * 261, 2); softmax<<<(n + 63) / 64, 64>>>(a, b, n, 261); b.show();"
    )
    holds(
        slug,
        program(code.replace("T*", f"{kind}*").replace("T(", f"{kind}("), main),
        (5,),
        relative=2e-3,
        absolute=1e-4,
    )


def test_a_section_of_one_thread_is_shared_and_kept_in_one_step() -> None:
    code = (
        SOFTMAX.replace("ROW", "blockIdx.x")
        .replace("GUARD", "if (threadIdx.x == 0) {")
        .replace("const T*", "const float*")
    )
    main = N + "  Device<float> a(n * 300), b(n * 300, 2); softmax<<<n, 64>>>(a, b, n, 300); b.show();"
    code = code.replace("T*", "float*").replace("T(", "float(")
    after = holds("section-kept", program(code, main), (3,), relative=1e-4, absolute=1e-6)
    assert "inputHeld" in after


LOADED = """
__global__ void hist(const unsigned char* a, const float* gate, unsigned* bins, int rows, int cols) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows || col >= cols) return;
  float share = gate[col];
  if (share > 0.5f) atomicAdd(&bins[a[row * cols + col]], 1);
}
"""
LOADED_RUN = (
    "  int rows = atoi(argv[1]), cols = atoi(argv[2]);\n"
    "  Device<unsigned char> a(rows * cols); Device<float> gate(cols, 2); Device<unsigned> bins(256, 3);\n"
    "  hist<<<dim3((cols + 31) / 32, (rows + 7) / 8), dim3(32, 8)>>>(a, gate, bins, rows, cols); bins.show();"
)


@pytest.mark.compiler
def test_what_is_loaded_for_a_column_is_counted_with_only_where_the_column_is() -> None:
    after = holds("private-histogram", program(LOADED, LOADED_RUN), (40, 37), (300, 5))
    assert (
        after.index("if (col < cols) {") < after.index("float share = gate[col]") < after.index("if (share >")
    )
