# SPDX-License-Identifier: Apache-2.0
"""Rows that one thread walked, given to warps, parts of warps and blocks, are what they were."""

from __future__ import annotations

import re

import pytest
from tests.host_cuda import same_results
from tests.tools.rewrite.on_host import holds, program, rewritten
from tests.tools.rewrite.row_programs import ONE_BLOCK, RC, ROWS, kernel_of

from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.base import (
    Target,
    along_one_axis,
    multiplies,
    of_alike_rows,
    of_long_rows,
    of_own_columns,
    of_shared_operands,
    of_single_outputs,
)
from warplens_tools.rewrite.registry import rewrite
from warplens_tools.text import SourceText

RUNS = ((37, 71), (5, 3), (70, 33))


@pytest.mark.compiler
@pytest.mark.parametrize("slug", ["warp-per-row", "block-per-row"])
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.sampled(8)
def test_rows_are_shared(slug: str, name: str) -> None:
    kernel, main = ROWS[name]
    holds(slug, program(kernel, main), *RUNS, relative=1e-3, absolute=1e-4)


@pytest.mark.compiler
@pytest.mark.parametrize("name", [name for name in ROWS if "axes" not in name])
@pytest.mark.sampled(4)
def test_fewer_lanes_share_a_row(name: str) -> None:
    before = program(*ROWS[name])
    after = re.sub(r"((?:kLanesPerRow =|LANES_PER_ROW) )32", r"\g<1>8", rewritten("warp-per-row", before)[1])
    assert re.search(r"(kLanesPerRow = 8;|LANES_PER_ROW 8\n)", after)
    same_results(before, after, "37", "21", orders=(1,), relative=1e-3, absolute=1e-4)


def test_rows_are_told_from_planes_that_one_number_is_divided_into() -> None:
    rows = ROWS["updates of a row that a divided number finds"][0]
    assert along_one_axis(rows) == 1.0
    assert along_one_axis(rows.replace("d[v] +=", "sum +=")) < 1.0


def test_a_thread_that_writes_a_row_is_told_from_one_with_an_output() -> None:
    rows = ROWS["updates of a row that a divided number finds"][0]
    assert of_single_outputs(rows) < of_single_outputs(rows.replace("d[v] +=", "sum +=")) == 1.0


WALKED = """
__global__ void bodies(const float4* p, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 me = p[i];
  float sum = 0.0f;
  for (int j = 0; j < n; ++j) sum += me.x * p[j].y;
  out[i] = sum;
}
"""
SPARSE = """
__global__ void rows(const int* begin, const float* value, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
  int first = begin[i];
  for (int k = first; k < begin[i + 1]; ++k) sum += value[k];
  out[i] = sum;
}
"""


def test_rows_of_their_own_are_told_from_what_all_threads_walk() -> None:
    own = WALKED.replace("p[j]", "p[i * n + j]")
    assert along_one_axis(WALKED) < along_one_axis(own) == 1.0
    assert of_own_columns(WALKED) < of_own_columns(own) == 1.0
    listed = WALKED.replace("p[j]", "p[rows[i] * n + j]")
    assert along_one_axis(listed) == of_own_columns(listed) == 1.0


def test_rows_that_data_end_are_short_and_rows_that_data_ask_for_few() -> None:
    assert of_long_rows(SPARSE) < along_one_axis(SPARSE) == 1.0
    asked = SPARSE.replace("  for (", "  if (value[i] > 0.0f) for (")
    assert along_one_axis(asked) < along_one_axis(SPARSE)
    assert of_long_rows(WALKED) == along_one_axis(WALKED)


CHAINS = ("warp-row-kept", "warp-row-vectors", "block-row-kept", "block-row-vectors")


@pytest.mark.compiler
@pytest.mark.parametrize("slug", CHAINS)
@pytest.mark.sampled(2)
def test_chains_hold_on_rows_longer_than_are_kept(slug: str) -> None:
    """More than 8 elements for each of 64 threads: what is kept, what is walked behind it, and the end."""
    for name in ("softmax by pointers", "a template in half precision"):
        holds(slug, program(*ROWS[name]), (2, 1301), (3, 500), relative=2e-3, absolute=1e-3)


COLUMNS = {
    "column sums": (
        """
__global__ void column_sums(const float* in, float* out, int rows, int cols) {
    unsigned int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < cols) {
        float total = 0.0f, top = in[c];
        for (int r = 0; r < rows; r++) {
            total += in[r * cols + c];
            top = fmaxf(top, in[r * cols + c]);
        }
        out[c] = total + top;
    }
}
""",
        RC + "  Device<float> x(rows * cols), y(cols, 2);\n"
        "  column_sums<<<(cols + 127) / 128, 128>>>(x, y, rows, cols); y.show();",
    ),
    "a transposed product, beside what was there": (
        """
#define BLOCK 64
__global__ void gemv_t(const double* A, const double* x, double* y, int m, int n) {
  int j = blockIdx.x * BLOCK + threadIdx.x;
  if (j >= n) return;
  double s = y[j];
  for (int i = 0; i < m; i++) s += A[i * n + j] * x[i];
  y[j] = s;
}
""",
        RC + "  Device<double> a(rows * cols), x(rows, 3), y(cols, 2);\n"
        "  int blocks = (cols + BLOCK - 1) / BLOCK;\n"
        "  gemv_t<<<blocks, BLOCK>>>(a, x, y, rows, cols); y.show();",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_split(name: str) -> None:
    holds("split-columns", program(*COLUMNS[name]), *RUNS, relative=1e-4, absolute=1e-4)


SERIAL = {
    "a block a row": (
        """
__global__ void rms(const float* in, float* out, int dim) {
    __shared__ float scale;
    __shared__ float peak[1];
    int tid = threadIdx.x;
    const float* x = in + blockIdx.x * dim;
    if (tid == 0) {
        float ss = 0.0f, top = 0.0f;
        for (int i = 0; i < dim; i++) {
            ss += x[i] * x[i];
            top = fmaxf(top, fabsf(x[i]));
        }
        scale = rsqrtf(ss / dim + 1e-5f);
        peak[0] = top;
    }
    __syncthreads();
    for (int i = tid; i < dim; i += blockDim.x) out[blockIdx.x * dim + i] = x[i] * scale + peak[0];
}
""",
        RC + "  Device<float> x(rows * cols), y(rows * cols, 2); rms<<<rows, 96>>>(x, y, cols); y.show();",
    ),
    "one thread of all": (
        """
__global__ void normalize(const double* x, double* y, int n) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    double s = 0;
    for (int i = 0; i < n; ++i) s += x[i] * x[i];
    for (int i = 0; i < n; ++i) y[i] = x[i] / s;
  }
}
""",
        RC + "  Device<double> x(rows * cols), y(rows * cols, 2);\n"
        "  normalize<<<2, 64>>>(x, y, rows * cols); y.show();",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", SERIAL)
def test_serial_sections_are_shared(name: str) -> None:
    holds("share-serial-section", program(*SERIAL[name]), *RUNS, relative=1e-4, absolute=1e-5)


CHUNKS = {
    "with an end that is cut": (
        """
__global__ void square(const float* in, float* out, unsigned n, unsigned per) {
    unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned begin = t * per, end = begin + per;
    if (end > n) end = n;
    for (unsigned i = begin; i < end; i++) out[i] = in[i] * in[i];
}
""",
        RC + "  unsigned n = rows * cols; Device<float> x(n), y(n, 2);\n"
        "  square<<<3, 32>>>(x, y, n, (n + 95) / 96); y.show();",
    ),
    "counted, with a test": (
        """
#define ITEMS 8
__global__ void add(const float* in, float* out, int n) {
  int base = (blockIdx.x * blockDim.x + threadIdx.x) * ITEMS;
  for (int k = 0; k < ITEMS; ++k) {
    int i = base + k;
    if (i < n) out[i] = in[i] + 1;
  }
}
""",
        RC + "  int n = rows * cols; Device<float> x(n), y(n, 2);\n"
        "  add<<<(n + ITEMS * 64 - 1) / (ITEMS * 64), 64>>>(x, y, n); y.show();",
    ),
    "two tests in the loop, and atomics": (
        """
__global__ void hist(const int* s, unsigned* bins, int n, int chunk) {
  int tid = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = tid * chunk; i < (tid + 1) * chunk && i < n; i++) atomicAdd(&bins[s[i] & 7], 1u);
}
""",
        RC + "  int n = rows * cols; Device<int> x(n); Device<unsigned> y(8);\n"
        "  cudaMemset(y, 0, 8 * sizeof(unsigned)); hist<<<2, 32>>>(x, y, n, (n + 63) / 64); y.show();",
    ),
    "a row's in its block": (
        """
__global__ void most(const float* x, int* out, int cols) {
  __shared__ float vals[32];
  __shared__ int ids[32];
  int row = blockIdx.x, t = threadIdx.x, id = 0;
  float best = -1e30f;
  int chunk = (cols + 31) / 32;
  for (int i = t * chunk; i < (t + 1) * chunk && i < cols; i++) {
    float v = x[row * cols + i] + i * 1e-4f;
    if (v > best) { best = v; id = i; }
  }
  vals[t] = best;
  ids[t] = id;
  __syncthreads();
  for (int s = 16; s > 0; s /= 2) {
    if (t < s && vals[t + s] > vals[t]) { vals[t] = vals[t + s]; ids[t] = ids[t + s]; }
    __syncthreads();
  }
  if (t == 0) out[row] = ids[0];
}
""",
        RC
        + "  Device<float> x(rows * cols); Device<int> y(rows);\n  most<<<rows, 32>>>(x, y, cols); y.show();",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", CHUNKS)
def test_chunks_are_dealt_out(name: str) -> None:
    holds("deal-out-chunks", program(*CHUNKS[name]), *RUNS)


@pytest.mark.parametrize(
    "behind",
    [
        "float run = part[0]; for (int i = t * chunk; i < (t + 1) * chunk; i++) { run += x[i]; out[i] = run; }",
        "out[blockIdx.x * 32 + t] = sum;",
    ],
)
def test_chunks_that_stay_a_threads_are_left(behind: str) -> None:
    code = f"""
__global__ void scan(const float* x, float* out, int chunk) {{
  __shared__ float part[32];
  int t = threadIdx.x;
  float sum = 0;
  for (int i = t * chunk; i < (t + 1) * chunk; i++) sum += x[i];
  part[t] = sum;
  __syncthreads();
  {behind}
}}
void run(const float* x, float* out, int chunk) {{ scan<<<3, 32>>>(x, out, chunk); }}
"""
    assert rewritten("deal-out-chunks", code)[0].refused


AXES = {
    "a bad product": (
        """
__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
  const int row = blockIdx.x * 8 + threadIdx.x, col = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= M || col >= N) return;
  float s = 0;
  for (int k = 0; k < K; k++) s += A[row * K + k] * B[k * N + col];
  C[row * N + col] = s;
}
""",
        RC + "  Device<float> a(rows * cols), b(cols * cols, 2), c(rows * cols, 3);\n"
        "  dim3 block(8, 16), grid((rows + 7) / 8, (cols + 15) / 16);\n"
        "  matmul<<<grid, block>>>(a, b, c, rows, cols, cols); c.show();",
    ),
    "a volume": (
        """
__global__ void diffuse(const double* u, double* v, int nx, int ny, int nz) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    int j = threadIdx.y + blockIdx.y * blockDim.y;
    int k = threadIdx.z + blockIdx.z * blockDim.z;
    if (i < 1 || j < 1 || k < 1 || i >= nx - 1 || j >= ny - 1 || k >= nz - 1) return;
    int id = (i * ny + j) * nz + k;
    v[id] = u[id] + 0.1 * (u[id - 1] + u[id + 1] + u[id - nz] + u[id + nz] - 4 * u[id]);
}
""",
        RC + "  Device<double> u(rows * cols * 9), v(rows * cols * 9, 2);\n"
        "  dim3 block(4, 4, 8);\n"
        "  diffuse<<<dim3((rows + 3) / 4, (cols + 3) / 4, (9 + 7) / 8), block>>>(u, v, rows, cols, 9); v.show();",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", AXES)
def test_axes_are_exchanged(name: str) -> None:
    holds("swap-thread-axes", program(*AXES[name]), *RUNS)


REFUSED = {
    "what is carried along": kernel_of("for (int j = 0; j < m; ++j) { s += x[j]; y[r * m + j] = s; }"),
    "a recurrence in memory": kernel_of("for (int j = 1; j < m; ++j) y[r * m + j] += y[r * m + j - 1];"),
    "a loop that may end": kernel_of("for (int j = 0; j < m; ++j) { if (x[j] > 3) break; s += x[j]; }"),
    "a way out of the kernel": kernel_of("for (int j = 0; j < m; ++j) { if (x[j] > 3) return; s += x[j]; }"),
    "a bound that moves": kernel_of("for (int j = 0; j < m; ++j) { s += x[j]; m -= x[j] > 3; }"),
    "a place that data choose": kernel_of("for (int j = 0; j < m; ++j) y[z[j]] += x[j];"),
    "one element for all": kernel_of("for (int j = 0; j < m; ++j) y[r] = x[j];"),
    "few iterations": kernel_of("for (int j = 0; j < 4; ++j) s += x[4 * r + j];"),
    "a window": kernel_of("for (int j = -m; j <= m; ++j) s += x[99 * r + 9 + j];"),
    "what a vector leaves": kernel_of("for (int j = r * 8; j < n && j < r * 8 + 8; ++j) s += x[j];"),
    "two foldings of one": kernel_of("for (int j = 0; j < m; ++j) { s += x[j]; s *= 0.5f; }"),
    "a state": kernel_of("for (int j = 0; j < m; ++j) s += next(&z[0]) + next(&m);"),
    "lanes that work together": kernel_of("for (int j = 0; j < m; ++j) s += __shfl_down_sync(~0u, x[j], 1);"),
    "a position of an atomic": kernel_of(
        "for (int j = 0; j < m; ++j) s += x[j];", after="int p = atomicAdd(z, 1); y[p] = s;"
    ),
    "blocks that are told apart": kernel_of(
        "for (int j = 0; j < m; ++j) s += x[j];", after="y[blockIdx.x] = s;"
    ),
    "odd blocks": kernel_of("for (int j = 0; j < m; ++j) s += x[j];", launch="(n + 99) / 100, 100"),
    "no launch": kernel_of("for (int j = 0; j < m; ++j) s += x[j];").split("void run")[0],
}


@pytest.mark.parametrize("slug", ["warp-per-row", "block-per-row"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_may_not_be_shared_is_refused(slug: str, name: str) -> None:
    assert rewritten(slug, REFUSED[name])[0].refused


TAPS = """
template <int kTaps> __global__ void taps(const float* x, float* y, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= n) return;
  float s = 0.0f;
  for (int j = 0; j < kTaps; ++j) s += x[r * kTaps + j];
  y[r] = s;
}
void run(float* x, float* y, int n) { constexpr int K = 5; taps<K><<<(n + 127) / 128, 128>>>(x, y, n); }
"""
TRIANGLE = """
__global__ void solve(const double* lower, double* x, int systems) {
  int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= systems) return;
  const double* l = lower + s * 64;
  for (int i = 0; i < 8; i++) {
    double sum = 0.0;
    for (int k = 0; k < i; k++) sum += l[i * 8 + k] * x[s * 8 + k];
    x[s * 8 + i] = (x[s * 8 + i] - sum) / (20.0 + l[i * 8 + i]);
  }
}
"""
SOLVED = """
  int n = atoi(argv[1]);
  Device<double> l(n * 64), x(n * 8, 2);
  solve<<<(n + 63) / 64, 64>>>(l, x, n); x.show();"""


@pytest.mark.parametrize("slug", ["warp-per-row", "block-per-row"])
def test_a_template_s_number_says_how_long_a_loop_is(slug: str) -> None:
    assert rewritten(slug, TAPS)[0].refused
    assert not rewritten(slug, TAPS.replace("K = 5", "K = 500"))[0].refused


def test_short_rows_have_few_lanes_and_no_block() -> None:
    text = program(TRIANGLE, SOLVED)
    assert "kLanesPerRow = 4;" in holds("warp-per-row", text, (37,), (70,), relative=1e-12)
    assert rewritten("block-per-row", text)[0].refused


PLANES = """
__global__ void shift(const float* x, const float* w, float* y, int rows, int planes, int len) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  for (int c = 0; c < planes; c++) {
    float by = w[c];
    for (int i = 0; i < len; i++) y[(r * planes + c) * len + i] = x[(r * planes + c) * len + i] * by;
  }
}
void run(float* x, float* y, int n) { shift<<<(n + 127) / 128, 128>>>(x, x, y, n, 4, 900); }
"""


def test_of_a_nest_the_loop_that_most_is_read_along_is_shared() -> None:
    after = rewritten("warp-per-row", PLANES)[1]
    assert "for (int i = lane; i < len; i += kLanesPerRow)" in after
    assert "for (int c = 0; c < planes; c++)" in after


def test_it_is_done_once() -> None:
    for name, (kernel, main) in ROWS.items():
        for slug in ("warp-per-row", "block-per-row"):
            once = rewritten(slug, program(kernel, main))[1]
            assert rewritten(slug, once)[0].refused, name


def test_a_second_kernel_uses_what_the_first_was_given() -> None:
    one = (
        ROWS["a sum that does not begin at nothing"][0]
        .replace("gemv", "first")
        .replace("#define THREADS 96\n", "")
    )
    two = one.replace("first", "second")
    calls = "".join(f"  {name}<<<n, 96>>>(x, x, x, n, n, 1, 1);\n" for name in ("first", "second"))
    launches = f"void run(float* x, int n) {{\n{calls}}}\n"
    text = (one + two).replace("THREADS", "96") + launches
    once = rewritten("warp-per-row", text)[1]
    source = SourceText(once)
    model = parse(source, "k.cu")
    kernel, found = model.kernel("second"), rewrite("warp-per-row")
    assert kernel is not None
    assert found is not None
    twice = source.apply(list(found.apply(source, model, kernel, Target()).edits)).text
    assert twice.count("constexpr int kLanesPerRow") == 1
    assert twice.count("__device__ float lanes_sum") == 1
    assert twice.count("<<<n * kLanesPerRow, 96>>>") == 2


AUTO = """
__device__ inline int globalIndex() { return blockIdx.x * blockDim.x + threadIdx.x; }
__global__ void rowMeans(const float* A, float* y, int m, int n) {
    int row = globalIndex();
    if (row >= m) return;
    auto sum = 0.0f;
    for (auto j = 0; j < n; ++j) sum += A[row * n + j];
    y[row] = sum / n;
}
"""


@pytest.mark.compiler
@pytest.mark.parametrize("slug", ["warp-per-row", "block-per-row"])
def test_a_thread_that_a_function_numbers(slug: str) -> None:
    main = RC + (
        "  Device<float> a(rows * cols), y(rows, 2);\n"
        "  rowMeans<<<(rows + 63) / 64, 64>>>(a, y, rows, cols); y.show();"
    )
    holds(slug, program(AUTO, main), *RUNS, relative=1e-4, absolute=1e-5)


@pytest.mark.compiler
def test_threads_of_one_block_become_warps_of_many() -> None:
    holds("warp-per-row", program(*ONE_BLOCK), (1, 45), relative=1e-4)
    several = program(ONE_BLOCK[0], ONE_BLOCK[1].replace("<<<1, 64>>>", "<<<2, 64>>>"))
    assert "all do the same" in rewritten("warp-per-row", several)[0].refused


LAYER = """
__global__ void layer(const float* x, const float* w, float* y, int in, int out) {
  int o = blockIdx.x * blockDim.x + threadIdx.x;
  int b = blockIdx.y;
  const float* row = x + b * in;
  if (o >= out) return;
  float s = 0.0f;
  for (int i = 0; i < in; i++) s += row[i] * w[o * in + i];
  y[b * out + o] = s;
}
"""
ROW_OF_OUTPUTS = """
__global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m) return;
  for (int j = 0; j < n; j++) {
    float s = 0.0f;
    for (int p = 0; p < k; p++) s += a[row * k + p] * b[p * n + j];
    c[row * n + j] = s;
  }
}
"""


@pytest.mark.parametrize(
    ("code", "is_product"),
    [
        (LAYER, True),
        (LAYER.replace("w[o * in + i]", "w[(b * out + o) * in + i]"), False),
        (LAYER.replace("row[i] *", "2.0f *"), False),
        (LAYER.replace("x + b * in", "x").replace("b * out + o", "o"), False),
        (ROW_OF_OUTPUTS, True),
        (ROW_OF_OUTPUTS.replace("b[p * n + j]", "b[row * k + p]"), False),
    ],
    ids=[
        "layer",
        "of each block",
        "rows alone",
        "one vector",
        "outputs of a row",
        "outputs of nothing shared",
    ],
)
def test_rows_of_a_product_are_worth_less(code: str, is_product: bool) -> None:
    assert multiplies(code) == is_product
    assert (along_one_axis(code) < 1.0) == is_product


GROUPS = """
__global__ void stats(const float* x, float* mean, int N, int C, int W, int G) {
  const int D = C / G;
  const int ng = blockIdx.x * blockDim.x + threadIdx.x;
  if (ng >= N * G) return;
  const int n = ng / G, g = ng % G;
  float s = 0.0f;
  for (int c = 0; c < D; ++c)
    for (int i = 0; i < W; ++i) s += x[(n * C + g * D + c) * W + i];
  mean[ng] = s / (D * W);
}
"""


def test_a_number_that_is_divided_may_say_which_row_is_whose() -> None:
    assert along_one_axis(GROUPS) == 1.0
    for window in ("g + c", "g * 2 + c", "c"):
        assert along_one_axis(GROUPS.replace("g * D + c", window)) < 0.5


ATTENDED = """
__global__ void attend(const float* q, const float* k, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float most = 0.0f;
  for (int j = 0; j < n; j++) {
    float dot = 0.0f;
    for (int d = 0; d < 16; d++) dot += q[i * 16 + d] * k[j * 16 + d];
    most = fmaxf(most, dot);
  }
  out[i] = most;
}
"""


def test_tiles_are_for_what_all_threads_walk() -> None:
    assert of_alike_rows(ATTENDED) == 1.0
    assert of_shared_operands(ATTENDED) < 0.5
    column = ATTENDED.replace("k[j * 16 + d]", "k[d]").replace("q[i * 16 + d]", "q[d * n + i]")
    assert of_alike_rows(column) == of_shared_operands(column) < 0.5
    assert of_shared_operands(ATTENDED.replace("q[i * 16 + d]", "x")) == 1.0
