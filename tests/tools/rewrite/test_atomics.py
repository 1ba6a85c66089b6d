# SPDX-License-Identifier: Apache-2.0
"""Atomics that blocks do for their threads: sums, extremes and histograms stay the same."""

from __future__ import annotations

import pytest
from tests.host_cuda import same_results
from tests.tools.rewrite.on_host import holds, program, rewritten

N = "  int n = atoi(argv[1]);\n"
SUMS = {
    "a dot product": (
        """
__global__ void dot(const float* a, const float* b, float* result, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float product = a[i] * b[i];
    atomicAdd(result, product);
  }
}
""",
        N + "  Device<float> a(n), b(n, 2), r(1); dot<<<(n + 255) / 256, 256>>>(a, b, r, n); r.show();",
    ),
    "two results, early return": (
        """
__global__ void moments(const double *values, double *out, unsigned n)
{
    const unsigned idx = threadIdx.x + blockDim.x * blockIdx.x;
    if (idx >= n) return;
    double v = values[idx];
    atomicAdd(&out[0], v);
    atomicAdd(&out[1], v * v);
}
""",
        N + "  Device<double> v(n), o(2); int threads = 128; int blocks = (n + threads - 1) / threads;\n"
        "  moments<<<blocks, threads>>>(v, o, n); o.show();",
    ),
    "extremes under a condition": (
        """
__global__ void range(const int* x, int* lo, int* hi, int n, int skip) {
  int tid = blockIdx.x * blockDim.x + threadIdx.x;
  if (tid < n && x[tid] != skip) {
    atomicMin(lo, x[tid]);
    atomicMax(hi, x[tid]);
  }
}
""",
        N + "  Device<int> x(n), a(1, 5), b(1, 7); range<<<dim3((n + 63) / 64), dim3(64)>>>(x, a, b, n, 2);\n"
        "  a.show(); b.show();",
    ),
    "a loop over the grid": (
        """
__global__ void count(const int* x, unsigned int* hits, int n, int wanted) {
  int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    if (x[i] == wanted) atomicAdd(hits, 1u);
  }
}
""",
        N + "  Device<int> x(n); Device<unsigned> h(1, 5); cudaMemset(h.data, 0, 4);\n"
        "  count<<<4, 96>>>(x, h, n, 1); h.show();",
    ),
    "an image": (
        """
__global__ void mass(const unsigned char* image, unsigned long long* total, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) {
    int value = image[y * width + x];
    atomicAdd(total, (unsigned long long)value);
  }
}
""",
        N
        + "  int w = 37; Device<unsigned char> im(w * n); Device<unsigned long long> t(1); cudaMemset(t.data, 0, 8);\n"
        "  dim3 b(16, 16), g((w + 15) / 16, (n + 15) / 16); mass<<<g, b>>>(im, t, w, n); t.show();",
    ),
    "a sum of each item, members of a record": (
        """
struct Counts { unsigned int many; unsigned int all; };
__global__ void rows(const int* x, Counts* total, int n, int width) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= n) return;
  unsigned int count = 0;
  for (int i = 0; i < width; ++i) if (x[r * width + i] > 0) count++;
  if (count > 2) atomicAdd(&total->many, 1u);
  atomicAdd(&total->all, count);
}
""",
        N + "  int w = 5; Device<int> x(n * w); Device<unsigned> t(2); cudaMemset(t.data, 0, 8);\n"
        "  rows<<<(n + 63) / 64, 64>>>(x, (Counts*)t.data, n, w); t.show();",
    ),
}


EXCHANGED = """
__device__ float raise(float* address, float value) {
  int* p = (int*)address;
  int old = *p, assumed;
  do {
    assumed = old;
    old = atomicCAS(p, assumed, __float_as_int(EXPRESSION));
  } while (assumed != old);
  return __int_as_float(old);
}
__global__ void most(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) raise(out, x[i] * x[i] - 3);
}
"""
EXPRESSIONS = (
    "fmaxf(value, __int_as_float(assumed))",
    "fminf(__int_as_float(assumed), value)",
    "value + __int_as_float(assumed)",
)


@pytest.mark.compiler
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_what_is_joined_by_compare_and_exchange(expression: str) -> None:
    main = N + "  Device<float> x(n), y(1, 2); most<<<(n + 63) / 64, 64>>>(x, y, n); y.show();"
    text = program(EXCHANGED.replace("EXPRESSION", expression), main)
    for slug in ("reduce-before-atomic", "join-before-atomic"):
        result, after = rewritten(slug, text)
        assert result.edits, result.refused
        for sizes in ("1000", "33"):
            same_results(text, after, sizes, orders=(1,), relative=1e-4)
    other = program(EXCHANGED.replace("EXPRESSION", "value * __int_as_float(assumed)"), main)
    assert rewritten("reduce-before-atomic", other)[0].refused


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.sampled(2)
def test_sums_are_reduced_within_the_block(name: str) -> None:
    after = holds("reduce-before-atomic", program(*SUMS[name]), (1000,), (33,), relative=1e-4, absolute=1e-3)
    assert "__shfl_down_sync" in after
    assert rewritten("reduce-before-atomic", after)[0].refused


UNIFORM = """
__global__ void sums(const float* x, const float* factors, float* out, int n, int rows) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y;
  if (row >= rows) return;
  float factor = factors[row];
  if (i < n) atomicAdd(out, x[row * n + i] * factor);
}
"""


def test_what_is_loaded_behind_a_blocks_condition_stays_behind_it() -> None:
    main = (
        "  int n = atoi(argv[1]);\n  Device<float> x(3 * n), f(3, 2), out(1, 3);\n"
        "  sums<<<dim3((n + 63) / 64, 5), 64>>>(x, f, out, n, 3); out.show();"
    )
    after = holds("reduce-before-atomic", program(UNIFORM, main), (1000,), relative=1e-4, absolute=1e-3)
    assert after.index("if (row < rows)") < after.index("= factors[row]")
    placed = UNIFORM.replace("atomicAdd(out,", "atomicAdd(&out[slot],").replace(
        "float factor = factors[row]", "int slot = (int)factors[row]; float factor = 2.0f"
    )
    assert "condition" in rewritten("reduce-before-atomic", program(placed, main))[0].refused


GRADIENTS = """
__global__ void gradients(const float* dy, const float* x, const float* mean, float* dgamma, float* dbeta, int N, int C,
                          int M) {
  int c = blockIdx.x;
  float g = 0, b = 0, m = mean[c];
  for (int n = 0; n < N; n++)
    for (int i = threadIdx.x; i < M; i += blockDim.x) {
      int at = (n * C + c) * M + i;
      g += dy[at] * (x[at] - m);
      b += dy[at];
    }
  atomicAdd(&dgamma[c], g);
  atomicAdd(&dbeta[c], b);
}
"""
RUN_GRADIENTS = """
  int M = atoi(argv[1]), C = 3;
  Device<float> dy(2 * C * M), x(2 * C * M, 2), m(C, 3), g(C, 4), b(C, 5);
  gradients<<<C, 64>>>(dy, x, m, g, b, 2, C, M); g.show(); b.show();
"""


@pytest.mark.compiler
def test_sums_of_a_block_for_its_own_place_are_reduced_within_it() -> None:
    text = program(GRADIENTS, RUN_GRADIENTS)
    after = holds("reduce-before-atomic", text, (150,), (7,), relative=1e-4, absolute=1e-3)
    assert after.count("atomicAdd(&dgamma[c], partial)") == 1
    for old, new in (
        ("  float g = 0", "  if (c >= C) return;\n  float g = 0"),
        ("int c = blockIdx.x;", "int c = blockIdx.x + threadIdx.x / 32;"),
    ):
        assert rewritten("reduce-before-atomic", program(GRADIENTS.replace(old, new), RUN_GRADIENTS))[
            0
        ].refused


def test_a_place_by_a_block_that_gets_more_items_is_left_alone() -> None:
    own = ATOMIC.replace("  if (i < n) {", "  int b = blockIdx.x;\n  if (i < n) {").replace(
        "out, x", "&out[b], x"
    )
    assert rewritten("reduce-before-atomic", own)[0].refused


ATOMIC = """
__global__ void k(float* x, float* out, int* at, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { atomicAdd(out, x[i]); }
}
void h(float* x, float* o, int* a, int n) { k<<<(n + 255) / 256, 256>>>(x, o, a, n); }
"""
REFUSED = {
    "the old value": ATOMIC.replace("atomicAdd(out, x[i])", "int p = atomicAdd(at, 1); out[p] = x[i]"),
    "a place each": ATOMIC.replace("out, x", "&out[at[i]], x"),
    "one thread": ATOMIC.replace("atomicAdd(out", "if (threadIdx.x == 0) atomicAdd(out"),
    "a barrier": ATOMIC.replace("if (i < n)", "__syncthreads(); if (i < n)"),
    "odd blocks": ATOMIC.replace("256", "100"),
    "another atomic": ATOMIC.replace("atomicAdd(out, x[i])", "atomicExch(out, x[i])"),
    "no launch": ATOMIC[: ATOMIC.index("void h")],
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_atomics_are_left_alone(name: str) -> None:
    assert rewritten("reduce-before-atomic", REFUSED[name])[0].refused


CENTRES = """
__global__ void centres(const float* points, const int* labels, float* sums, int* counts, int n, int dims, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int c = labels[i] < 0 ? 0 : labels[i];
  for (int d = 0; d < dims; d++) atomicAdd(&sums[c * dims + d], points[i * dims + d]);
  atomicAdd(&counts[c], 1);
}
"""
CENTRES_RUN = (
    N + "  int d = 3; Device<float> x(n * d), s(4 * d, 2); Device<int> l(n), c(4, 3);\n"
    "  centres<<<(n + 63) / 64, 64>>>(x, l, s, c, n, d, 4); s.show(); c.show();"
)


@pytest.mark.compiler
def test_sums_and_counts_of_labels_share_a_blocks_memory() -> None:
    after = holds("private-histogram", program(CENTRES, CENTRES_RUN), (1000,), (33,), relative=1e-4)
    assert "blockSums + k * dims" in after and "4 * d * sizeof(float) + 4 * sizeof(int)" in after
    assert "ItemsPerThread = 8" in after
    masked = CENTRES.replace("labels[i] < 0 ? 0 : labels[i]", "labels[i] & 3")
    assert "b < 4 * dims" in holds("private-histogram", program(masked, CENTRES_RUN), (100,), relative=1e-4)
    # what is used is no number of labels, and of two that are not used none is known to be: a block has some of them
    for other in (
        CENTRES.replace("int c =", "int c = k > 3 ? 3 :"),
        CENTRES.replace("int k", "int k, int more = 0"),
    ):
        after = holds("private-histogram", program(other, CENTRES_RUN), (1000,), relative=1e-4)
        assert "c * dims + d) < kSharedGroups" in after


HISTOGRAMS = {
    "of bytes": (
        """
__global__ void histogram(const unsigned char* data, unsigned int* bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[data[i]], 1);
}
""",
        N + "  Device<unsigned char> d(n); Device<unsigned> b(256); cudaMemset(b.data, 0, 1024);\n"
        "  histogram<<<(n + 255) / 256, 256>>>(d, b, n); b.show();",
    ),
    "of a parameter's bins, a helper variable": (
        """
__global__ void hist(const float* __restrict__ x, int* counts, int n, int num_bins, float lo, float scale)
{
    int tid = blockIdx.x * blockDim.x + threadIdx.x;
    if (tid >= n) return;
    int bin = (int)((x[tid] - lo) * scale);
    if (bin >= 0 && bin < num_bins)
        atomicAdd(&counts[bin], 1);
}
""",
        N + "  Device<float> x(n); Device<int> c(40); int nb = 37;\n"
        "  hist<<<(n + 127) / 128, 128>>>(x, c, n, nb, -4.0f, 5.0f); c.show();",
    ),
    "by remainder, weights, a pointer sum": (
        """
#define BUCKETS 61
__global__ void weigh(const int* keys, const float* w, float* sums, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    atomicAdd(sums + (keys[i] + 64) % BUCKETS, w[i]);
}
""",
        N
        + "  Device<int> k(n); Device<float> w(n, 3), s(BUCKETS, 5); weigh<<<3, 64>>>(k, w, s, n); s.show();",
    ),
    "counts before sums that are wider, as many as a parameter says": (
        """
__global__ void totals(const unsigned char* shop, const int* amount, int* count, unsigned long long* sum, int n,
                       int shops) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && shop[i] < shops) {
    atomicAdd(&count[shop[i]], 1);
    atomicAdd(&sum[shop[i]], (unsigned long long)(amount[i] & 255));
  }
}
""",
        N
        + "  Device<unsigned char> p(n); Device<int> a(n, 3), c(77, 5); Device<unsigned long long> s(77, 7);\n"
        "  totals<<<(n + 63) / 64, 64>>>(p, a, c, s, n, 77); c.show(); s.show();",
    ),
    "of groups whose number nobody says, more than a block has": (
        """
__global__ void sums_by_key(const int* keys, const float* values, float* sums, int* counts, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int key = keys[i] * 700 + 2100;
  if (key >= 0) atomicAdd(&sums[key], values[i]);
  atomicAdd(&counts[key], 1);
}
""",
        N + "  Device<int> k(n), c(4300, 7); Device<float> v(n, 3), s(4300, 5);\n"
        "  sums_by_key<<<(n + 63) / 64, 64>>>(k, v, s, c, n); s.show(); c.show();",
    ),
    "long sums of words, and how many": (
        """
__global__ void totals(const int* shop, const int* amount, unsigned long long* sum, unsigned long long* count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned int cents = (amount[i] & 31) * 134217728;
  if (cents > 0) atomicAdd(&sum[shop[i] + 3], (unsigned long long)cents);
  atomicAdd(&count[shop[i] + 3], 1ull);
}
""",
        N + "  Device<int> p(n), a(n, 3); Device<unsigned long long> s(9, 5), c(9, 7);\n"
        "  totals<<<(n + 63) / 64, 64>>>(p, a, s, c, n); s.show(); c.show();",
    ),
    "of letters": (
        """
__global__ void letters(const char* text, size_t length, int* count) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < length) {
    char c = text[i];
    int index = c - 'a' + 97;
    if (index >= 0 && index < 26) atomicAdd(&count[index], 1);
  }
}
""",
        N + "  Device<char> t(n); Device<int> c(26); letters<<<(n + 255) / 256, 256>>>(t, n, c); c.show();",
    ),
}


@pytest.mark.parametrize("name", HISTOGRAMS)
@pytest.mark.sampled(3)
def test_histograms_are_counted_in_shared_memory(name: str) -> None:
    after = holds(
        "private-histogram", program(*HISTOGRAMS[name]), (3000,), (33,), relative=1e-4, absolute=1e-3
    )
    assert "__shared__" in after
    assert rewritten("private-histogram", after)[0].refused


def test_words_that_are_added_to_a_long_sum_carry() -> None:
    after = rewritten("private-histogram", program(*HISTOGRAMS["long sums of words, and how many"]))[1]
    assert "cents) > ~cents) atomicAdd(&blockSumCarries[shop[i] + 3], 1u);" in after
    signed = HISTOGRAMS["long sums of words, and how many"][0].replace("unsigned int cents", "int cents")
    assert (
        "blockSumCarries" not in rewritten("private-histogram", program(signed, HISTOGRAMS["of bytes"][1]))[1]
    )


def test_what_every_thread_has_alone_is_added_up_in_memory() -> None:
    found = rewritten("private-histogram", ATOMIC.replace("out, x", "&out[i * n], x"))[0]
    assert "not read from memory" in found.refused


@pytest.mark.parametrize("name", ["the old value", "a barrier", "another atomic", "no launch"])
def test_what_is_no_histogram_is_left_alone(name: str) -> None:
    assert rewritten("private-histogram", REFUSED[name])[0].refused


PLACES = {
    "sums by segment": (
        "__global__ void k(const float* v, const int* at, float* out, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i < n) atomicAdd(&out[at[i] & 7], v[i]);\n}\n",
        "float",
    ),
    "maxima and counts, in a loop": (
        "__global__ void k(const int* v, const int* at, int* out, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  for (int j = 0; j < 3; j++) {\n"
        "    atomicMax(out + (at[i] + j) % 5, v[(i + j) % n]);\n"
        "    atomicAdd(out + 5 + (at[i] & 2), 1);\n  }\n}\n",
        "int",
    ),
    "each place once": (
        "__global__ void k(const unsigned* v, const int* at, unsigned* out, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  atomicOr(&out[(at[0] + i * 5) % n], v[i]);\n}\n",
        "unsigned",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("name", PLACES)
@pytest.mark.sampled(2)
def test_lanes_that_have_one_place_join(name: str, together: bool) -> None:
    code, kind = PLACES[name]
    main = (
        N + f"  Device<{kind}> v(n), out(n); Device<int> at(n, 3);\n"
        "  k<<<n / 64, 64>>>(v, at, out, n); out.show();"
    )
    before = program(code, main)
    result, after = rewritten("join-before-atomic", before)
    assert result.edits, result.refused
    if together:  # threads of the CPU never meet by themselves
        assert after.count("__activemask()") in (1, 2)
        after = after.replace("__activemask()", "0xffffffffu")
    same_results(before, after, "128", relative=1e-5)


@pytest.mark.parametrize(
    "call",
    [
        "int p = atomicAdd(at, 1); out[p] = 1;",
        "atomicAdd(&out[i], x[i]);",
        "atomicExch(&at[at[i]], i);",
        "out[i]++;",
    ],
)
def test_places_of_each_thread_are_left(call: str) -> None:
    assert rewritten("join-before-atomic", ATOMIC.replace("atomicAdd(out, x[i]);", call))[0].refused


BITS = """
__device__ RETURNS raise(float* address, float value) {
  BODY
}
__global__ void most(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) raise(out, VALUE);
}
"""
BY_BITS = (
    ("float", "return __int_as_float(atomicMax((int*)address, __float_as_int(value)));", "fabsf(x[i])"),
    ("void", "atomicMin(reinterpret_cast<int*>(address), __float_as_int(value));", "fabsf(x[i]) + 1"),
    (
        "void",
        "if (value >= 0) atomicMax((int*)address, __float_as_int(value));\n"
        "  else atomicMin((unsigned int*)address, __float_as_uint(value));",
        "x[i] - 4",
    ),
)


@pytest.mark.compiler
@pytest.mark.parametrize(("returns", "body", "value"), BY_BITS)
def test_what_integers_of_the_same_bits_join(returns: str, body: str, value: str) -> None:
    main = N + "  Device<float> x(n), y(1, 2); most<<<(n + 63) / 64, 64>>>(x, y, n); y.show();"
    code = BITS.replace("RETURNS", returns).replace("BODY", body).replace("VALUE", value)
    text = program(code, main)
    for slug in ("reduce-before-atomic", "join-before-atomic"):
        holds(slug, text, (1000,), (33,), (1,))
    result, after = rewritten("reduce-before-atomic", text)
    assert result.edits
    # a block without elements joins the least of all: minus zero, whose bits are the least integer
    assert ("partial = -0.0f" in after) == (value == "fabsf(x[i])")
    other = text.replace("__float_as_int(value)", "__float_as_int(-value)")
    assert other != text and rewritten("reduce-before-atomic", other)[0].refused


TABLE_ROWS = """
__global__ void gradients(const int* ids, const float* grad, float* table, int tokens, int dim) {
  int t = blockIdx.x;
  int id = ids[t];
  for (int d = threadIdx.x; d < dim; d += blockDim.x) atomicAdd(&table[id * dim + d], grad[t * dim + d]);
}
"""


@pytest.mark.compiler
def test_as_many_blocks_as_a_number_says_are_no_bins() -> None:
    """The number that nothing in the kernel uses counts its tokens, of which each may have any row of the table."""
    main = (
        "  int n = atoi(argv[1]), dim = 5, words = 40; Device<int> ids(n); Device<float> g(n * dim), t(200);\n"
        "  std::vector<int> h(n); for (int i = 0; i < n; i++) h[i] = (i * 29 + 37) % words;\n"
        "  cudaMemcpy(ids.data, h.data(), n * sizeof(int), cudaMemcpyHostToDevice);\n"
        "  gradients<<<n, 32>>>(ids, g, t, n, dim); t.show();"
    )
    twice = TABLE_ROWS.replace("table[id * dim + d]", "table[id * dim + d / 2]")
    after = holds("private-histogram", program(twice, main), (3,), (90,), relative=1e-4, absolute=1e-4)
    assert "tokens * dim" not in after
    # each thread of a block has places of its own
    assert rewritten("private-histogram", program(TABLE_ROWS, main))[0].refused
