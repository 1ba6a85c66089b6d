# SPDX-License-Identifier: Apache-2.0
"""Threads that walk neighbouring columns side by side, each with several of them in vectors."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SIZES = "  int rows = atoi(argv[1]), dim = atoi(argv[2]), o = atoi(argv[3]);\n"
GATHER = """
__global__ void gather(const float* table, const int* ids, float* out, int rows, int dim, int each) {
  const int d = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (d >= dim || row >= rows) return;
  float sum = 0.0f, most = -1e30f;
  for (int p = 0; p < each; ++p) {
    const int at = ids[row * each + p];
    const float v = table[(size_t)at * dim + d];
    sum += v * (p + 1);
    most = fmaxf(most, v);
  }
  out[row * dim + d] = sum / each + most;
}
"""
FILL = (
    "  Device<int> ids(rows * 5); int* h = new int[rows * 5];\n"
    "  for (int i = 0; i < rows * 5; i++) h[i] = i * 7 % rows;\n"
    "  cudaMemcpy(ids, h, rows * 5 * sizeof(int), cudaMemcpyHostToDevice);\n"
)
RUN = (
    SIZES
    + FILL
    + (
        "  Device<float> t(rows * dim + 8), out(rows * dim, 2);\n"
        "  gather<<<dim3((dim + 31) / 32, (rows + 3) / 4), dim3(32, 4)>>>(t + o, ids, out, rows, dim, 5); out.show();"
    )
)
DEPTHWISE = """
__global__ void depthwise(const float* x, const float* w, float* y, int H, int W, int C) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, col = blockIdx.y, row = blockIdx.z;
  if (c >= C) return;
  float acc = 0;
  for (int ky = 0; ky < 3; ++ky)
    for (int kx = 0; kx < 3; ++kx) {
      int iy = row + ky - 1, ix = col + kx - 1;
      if (iy < 0 || iy >= H || ix < 0 || ix >= W) continue;
      acc += x[(iy * W + ix) * C + c] * w[(ky * 3 + kx) * C + c];
    }
  y[(row * W + col) * C + c] = acc;
}
"""
DEPTHWISE_RUN = (
    SIZES + "  int C = 4 * o; Device<float> x(rows * dim * C), w(9 * C, 3), y(rows * dim * C, 5);\n"
    "  depthwise<<<dim3((C + 31) / 32, dim, rows), 32>>>(x, w, y, rows, dim, C); y.show();"
)
PROGRAMS = {
    "what lies outside for all columns": (DEPTHWISE, DEPTHWISE_RUN),
    "a gather": (GATHER, RUN),
    "a grid that the block says": (
        GATHER,
        RUN.replace(
            "gather<<<", "dim3 b(32, 4), g((dim + b.x - 1) / b.x, (rows + b.y - 1) / b.y);\n  gather<<<"
        ).replace("dim3((dim + 31) / 32, (rows + 3) / 4), dim3(32, 4)", "g, b"),
    ),
    "columns that the grid strides over": (
        GATHER.replace("  const int d = blockIdx.x * blockDim.x + threadIdx.x;\n", "")
        .replace("d >= dim || ", "")
        .replace(
            "  float sum = 0.0f",
            "  for (int d = blockIdx.x * blockDim.x + threadIdx.x; d < dim; d += DIM) {\n  float sum = 0.0f",
        )
        .replace("+ most;\n", "+ most;\n  }\n")
        .replace("DIM", "blockDim.x * gridDim.x"),
        RUN.replace("dim3((dim + 31) / 32,", "dim3(1,"),
    ),
    "halves of a batch": (
        """
__global__ void weighted(const __half* p, const __half* v, __half* out, int rows, int dim) {
  int d = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y, b = blockIdx.z;
  if (d < dim) {
    float acc = __half2float(out[(b * rows + row) * dim + d]);
    for (int k = 0; k < rows; k++) acc += __half2float(p[row * rows + k]) * __half2float(v[(b * rows + k) * dim + d]);
    out[(b * rows + row) * dim + d] = __float2half(acc);
  }
}
""",
        SIZES + "  Device<__half> p(rows * rows), v(2 * rows * dim + 8, 2), out(2 * rows * dim, 3);\n"
        "  weighted<<<dim3((dim + 63) / 64, rows, 2), 64>>>(p, v + o, out, rows, dim); out.show();",
    ),
    "column sums of doubles": (
        """
__global__ void sums(const double* a, const double* b, double* out, int rows, int dim) {
  int d = blockIdx.x * blockDim.x + threadIdx.x;
  if (d >= dim) return;
  double s = 1.0;
  for (int r = 0; r < rows; r++)
    for (int q = 0; q < 2; q++) s += a[r * dim + d] * b[dim * r + d] - q;
  out[d] = s;
}
""",
        SIZES + "  Device<double> a(rows * dim + 8), b(rows * dim, 2), out(dim, 3);\n"
        "  sums<<<(dim + 63) / 64, 64>>>(a + o, b, out, rows, dim); out.show();",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled(2)
def test_columns_are_walked_in_vectors(name: str) -> None:
    after = holds(
        "columns-in-vectors", program(*PROGRAMS[name]), (7, 128, 0), (7, 70, 0), (3, 64, 1), (2, 3, 0)
    )
    assert "reinterpret_cast<const" in after
    assert rewritten("columns-in-vectors", after)[0].refused


def test_short_rows_are_several_of_a_block() -> None:
    after = rewritten("columns-in-vectors", program(*PROGRAMS["a gather"]))[1]
    assert "dim3(32 / kVector, 4 * kVector)" in after
    after = rewritten("columns-in-vectors", program(*PROGRAMS["a grid that the block says"]))[1]
    assert "b(32, 4)" in after


@pytest.mark.compiler
def test_rows_of_blocks_are_numbered_before() -> None:
    code = GATHER.replace("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x").replace(
        "blockIdx.y * blockDim.y + threadIdx.y", "blockIdx.x"
    )
    for block in ("128", "dim"):
        main = RUN.replace("dim3((dim + 31) / 32, (rows + 3) / 4), dim3(32, 4)", f"rows, {block}")
        after = holds("ordered-columns", program(code, main), (7, 128, 0), (9, 37, 0))
        assert "reinterpret_cast<const" in after and "* kVector)>>>" in after


SPARSE = """
__global__ void spmm(const int* ends, const int* ids, const float* v, const float* B, float* C, int rows, int dim) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  for (int j = 0; j < dim; ++j) {
    float sum = 0.0f;
    for (int p = 5 * row; p < 5 * (row + 1); ++p) sum += v[p] * B[ids[p] * dim + j] + ends[0];
    C[row * dim + j] = sum;
  }
}
"""


@pytest.mark.compiler
def test_a_loop_over_columns_becomes_an_axis_before() -> None:
    main = (
        SIZES
        + FILL
        + (
            "  Device<float> v(rows * 5), b(rows * dim + 8, 2), c(rows * dim, 3);\n"
            "  spmm<<<(rows + 63) / 64, 64>>>(ids, ids, v, b + o, c, rows, dim); c.show();"
        )
    )
    after = holds("loop-into-columns", program(SPARSE, main), (70, 64, 0), (9, 37, 1))
    assert "reinterpret_cast<const" in after


REFUSED = {
    "a window": GATHER.replace("at * dim + d]", "at * dim + d + p]"),
    "a column of data": GATHER.replace("at * dim + d]", "at * dim + ids[d]]"),
    "every second column": GATHER.replace("at * dim + d]", "at * dim + 2 * d]"),
    "rows of a width that changes": GATHER.replace("float sum", "dim += 1;\n  float sum"),
    "under a condition": GATHER.replace("const float v = table", "float v = 0;\n    if (at > 3) v = table"),
    "as long as the column says": GATHER.replace("p < each", "p < d"),
    "rows that begin anywhere": GATHER.replace("(size_t)at * dim", "(size_t)at"),
    "a barrier": GATHER.replace("  float sum", "  __syncthreads();\n  float sum"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_left_alone(name: str) -> None:
    assert rewritten("columns-in-vectors", program(REFUSED[name], RUN))[0].refused


CHANNELS = """
__global__ void softmax(const float* in, float* out, int images, int channels, int pixels) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= images * pixels) return;
  int n = i / pixels, p = i % pixels;
  float most = -1e30f, sum = 0;
  for (int c = 0; c < channels; c++) most = fmaxf(most, in[(n * channels + c) * pixels + p]);
  for (int c = 0; c < channels; c++) sum += expf(in[(n * channels + c) * pixels + p] - most);
  for (int c = 0; c < channels; c++) OUT = expf(in[(n * channels + c) * pixels + p] - most) / sum;
}
"""
OUT = "out[(n * channels + c) * pixels + p]"
IMAGES = (
    SIZES + "  Device<float> in(rows * 5 * dim + 8), out(rows * 5 * dim + 8, 2);\n"
    "  softmax<<<(rows * dim + 63) / 64, 64>>>(in + o, out + o, rows, 5, dim); out.show();"
)


@pytest.mark.compiler
@pytest.mark.parametrize("place", [OUT, OUT.replace("out", "in")])
def test_a_loop_stores_its_column_in_vectors(place: str) -> None:
    code = CHANNELS.replace("OUT", place).replace("const float* in", "float* in")
    after = holds("axes-in-vectors", program(code, IMAGES), (3, 64, 0), (2, 37, 0), (2, 36, 1))
    assert after.count("reinterpret_cast<const") == 4
    # neighbouring threads have neighbouring pixels: nothing is won where a warp has one pixel's channels
    for slug in ("warp-per-row", "block-per-row"):
        assert rewritten(slug, program(code, IMAGES))[0].refused


def test_heads_of_rows_that_data_end_are_no_columns() -> None:
    code = (
        "__global__ void sums(const float* v, const int* ends, float* out, int nodes, int heads) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= nodes * heads) return;\n"
        "  int node = i / heads, h = i % heads;\n  float sum = 0;\n"
        "  for (int e = ends[node]; e < ends[node + 1]; e++) sum += v[e * heads + h];\n  out[i] = sum;\n}\n"
    )
    main = "  sums<<<(argc * 4 + 63) / 64, 64>>>(0, 0, 0, argc, 4);"
    assert rewritten("warp-per-row", program(code, main))[0].edits


@pytest.mark.parametrize("place", ["out[c]", "in[(n * channels + c) * pixels + pixels + p]"])
def test_a_loop_that_stores_otherwise_is_no_column(place: str) -> None:
    code = CHANNELS.replace("OUT", place).replace("const float* in", "float* in")
    after = rewritten("axes-in-vectors", program(code, IMAGES))[1]
    assert after.count("reinterpret_cast<float4*>(&") == 0


@pytest.mark.parametrize("slug", ["loop-into-columns", "several-outputs"])
def test_what_is_loaded_for_a_row_is_loaded_behind_the_limit(slug: str) -> None:
    code = (
        "__global__ void bags(const float* table, const int* ids, const int* ends, float* out, int count, int dim) {\n"
        "  int bag = blockIdx.x * blockDim.x + threadIdx.x;\n  if (bag >= count) return;\n"
        "  int begin = ends[bag];\n  int end = begin + 3;\n  for (int d = 0; d < dim; d++) {\n"
        "    float sum = 0.0f;\n    for (int i = begin; i < end; i++) sum += table[ids[i] * dim + d];\n"
        "    out[bag * dim + d] = sum;\n  }\n}\n"
    )
    main = "  bags<<<(argc + 63) / 64, 64>>>(0, 0, 0, 0, argc, 64);"
    if slug == "several-outputs":
        code, main = GATHER.replace("float sum", "const int n = ids[row];\n  float sum"), RUN
        code = code.replace("at * dim", "(at + n % 2) * dim")
    after = rewritten(slug, program(code, main))[1]
    limit = after.index(") return;", after.index("__global__"))
    assert limit < after.index("ends[bag]" if slug != "several-outputs" else "= ids[row]")
