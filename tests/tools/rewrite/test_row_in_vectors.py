# SPDX-License-Identifier: Apache-2.0
"""Rows that stay with their thread are loaded in vectors: the same bits, at lengths that no vector divides."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

CRC = """
__global__ void crc32(const unsigned char* data, unsigned int* crcs, int count, int size) {
  int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b >= count) return;
  unsigned int crc = 0xFFFFFFFF;
  for (int i = 0; i < size; i++) {
    crc ^= data[b * size + i];
    for (int k = 0; k < 8; k++) crc = (crc >> 1) ^ (0xEDB88320 & (-(crc & 1)));
  }
  crcs[b] = ~crc;
}
"""
MAIN = """
  int n = atoi(argv[1]), len = atoi(argv[2]);
  Device<unsigned char> d(n * len); Device<unsigned int> c(n, 2);
  crc32<<<(n + 63) / 64, 64>>>(d, c, n, len); c.show();
"""
PROGRAMS = {
    "a checksum": (CRC, MAIN),
    "a filter that remembers, by pointers": (
        """
__global__ void smooth(const float* x, const float* w, float* y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {
    const float* in = x + (size_t)r * cols;
    float* out = y + (size_t)r * cols;
    float last = 0.0f;
    for (int c = 0; c < cols; ++c) {
      last = 0.5f * last + in[c] * w[c];
      out[c] = last;
    }
  }
}
""",
        """
  int n = atoi(argv[1]), len = atoi(argv[2]);
  Device<float> x(n * len), w(len, 2), y(n * len, 3);
  smooth<<<(n + 31) / 32, 32>>>(x, w, y, n, len); y.show();
""",
    ),
    "a count that waits for its start": (
        """
__global__ void runs(const char* text, int* out, int rows, int width) {
  const int r = threadIdx.x + blockIdx.x * blockDim.x;
  if (r >= rows) return;
  int longest = 0, run = 0;
  char before = 0;
  for (int i = 0; i < width; i++) {
    char c = text[r * width + i];
    if (c == before) run++; else run = 1;
    if (run > longest) longest = run;
    before = c;
  }
  out[r] = longest;
}
""",
        """
  int n = atoi(argv[1]), len = atoi(argv[2]);
  Device<char> x(n * len); Device<int> y(n, 3);
  runs<<<(n + 31) / 32, 32>>>(x, y, n, len); y.show();
""",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_row_is_loaded_in_vectors(name: str) -> None:
    after = holds("row-in-vectors", program(*PROGRAMS[name]), (37, 64), (20, 71), (3, 5))
    assert "reinterpret_cast" in after and rewritten("row-in-vectors", after)[0].refused


@pytest.mark.parametrize(
    "change",
    [
        ("crc ^= data", "if (crc == 7) break; crc ^= data"),
        ("i++", "i += 2"),
        ("data[b * size + i]", "data[i * count + b]"),
        ("data[b * size + i]", "data[i]"),
        ("i < size", "i < 8"),
    ],
)
def test_other_walks_stay(change: tuple[str, str]) -> None:
    assert change[0] in CRC
    assert rewritten("row-in-vectors", program(CRC.replace(*change), MAIN))[0].refused


def test_a_row_that_rests_on_what_it_wrote_stays() -> None:
    code, main = PROGRAMS["a filter that remembers, by pointers"]
    assert not rewritten("row-in-vectors", program(code, main))[0].refused
    code = code.replace("0.5f * last", "0.5f * (c > 0 ? out[c - 1] : last)")
    found = rewritten("row-in-vectors", program(code, main))[0]
    assert "other elements of the row that it writes" in found.refused


AVERAGE = """
__global__ void average(const float* price, float* out, int series, int days, float alpha) {
  int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= series) return;
  float e = price[s * days];
  out[s * days] = e;
  for (int d = 1; d < days; d++) {
    e = alpha * price[s * days + d] + (1 - alpha) * e;
    out[s * days + d] = e;
  }
}
"""
RUN_AVERAGE = """
  int n = atoi(argv[1]), days = atoi(argv[2]); Device<float> p(n * days), o(n * days, 2);
  average<<<(n + 63) / 64, 64>>>(p, o, n, days, 0.25f); o.show();
"""


@pytest.mark.compiler
def test_a_walk_may_begin_behind_its_first_element() -> None:
    after = holds("row-in-vectors", program(AVERAGE, RUN_AVERAGE), (37, 64), (20, 71), (3, 1))
    assert "first >= 1" in after
    later = AVERAGE.replace("d = 1", "d = 5")
    assert rewritten("row-in-vectors", program(later, RUN_AVERAGE))[0].refused


STRETCHES = {
    "strings end to end": (
        """
__global__ void hashes(const unsigned char* chars, const int* offsets, unsigned* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned hash = 2166136261u;
  for (int k = offsets[i]; k < offsets[i + 1]; k++) {
    hash ^= chars[k];
    hash *= 16777619u;
  }
  out[i] = hash;
}
""",
        "Device<unsigned char> c(n * 40); Device<unsigned> o(n); hashes<<<(n + 63) / 64, 64>>>(c, at, o, n); o.show();",
    ),
    "rows of a sparse matrix": (
        """
template <typename T>
__global__ void spmv(const int* __restrict__ rows, const int* __restrict__ cols, const T* __restrict__ vals,
                     const T* x, T* y, int n)
{
    for (int r = blockIdx.x * blockDim.x + threadIdx.x; r < n; r += gridDim.x * blockDim.x) {
        int begin = rows[r], end = rows[r + 1];
        T sum = 0;
        for (int e = begin; e < end; ++e) sum += vals[e] * x[cols[e] & 15];
        y[r] = sum;
    }
}
""",
        "Device<int> c(n * 40); Device<float> v(n * 40), x(16), y(n);\n"
        "  spmv<float><<<2, 64>>>(at, c, v, x, y, n); y.show();",
    ),
    "words of neighbours, if there are any": (
        """
__global__ void degrees(const int *start, const int *next, const short *weight, int *out, int n)
{
    int v = threadIdx.x + blockIdx.x * blockDim.x;
    if (v < n) {
        int first = start[v];
        const int last = start[v + 1];
        int most = 0;
        if (last > first) {
            for (int e = first; e < last; e++) { if (weight[e] > most) { most = weight[e]; } }
        }
        out[v] = most + first;
    }
}
""",
        "Device<int> x(n * 40), o(n); Device<short> w(n * 40);\n"
        "  degrees<<<(n + 63) / 64, 64>>>(at, x, w, o, n); o.show();",
    ),
}
LENGTHS = """
  int n = atoi(argv[1]); Device<int> at(n + 1); at.data[0] = atoi(argv[2]);
  for (int i = 0; i < n; i++) at.data[i + 1] = at.data[i] + i * 7 % 37;
"""


@pytest.mark.compiler
@pytest.mark.parametrize("name", STRETCHES)
def test_stretches_that_data_tell_begin_at_a_vector(name: str) -> None:
    kernel, main = STRETCHES[name]
    after = holds("row-in-vectors", program(kernel, LENGTHS + "  " + main), (100, 0), (37, 3), relative=1e-4)
    assert " % kVector; first" in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("hash *= 16777619u;", "hash *= 16777619u; offsets[i + 1] = k;"),
        ("k = offsets[i]; k", "k = offsets[i++]; k"),
        ("for (int k = offsets", "if (n > 3) for (int k = offsets"),
    ],
)
def test_other_stretches_stay(old: str, new: str) -> None:
    text = STRETCHES["strings end to end"][0].replace("const int* offsets", "int* offsets").replace(old, new)
    assert rewritten("row-in-vectors", text)[0].refused
