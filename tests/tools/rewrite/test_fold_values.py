# SPDX-License-Identifier: Apache-2.0
"""Folds that come to something else in parts are left: cut off at each step, compared unsigned, of memory twice."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

WINDOW = """
__global__ void smooth(const float* in, float* out, int n, int radius) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
  for (int k = -radius; k <= radius; ++k) {
    if (i + k >= 0 && i + k < n) sum += in[i + k];
  }
  out[i] = sum;
}
void run(const float* in, float* out, int n, int radius) {
  smooth<<<(n + 255) / 256, 256>>>(in, out, n, radius);
}
"""
ROW = """
__global__ void rows(const float* in, float* out, int n, int m) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= n) return;
  float sum = 0.0f;
  for (int i = 0; i < m; ++i) {
    sum += in[r * m + i];
    out[r * m + i] = sum;
  }
}
void run(const float* in, float* out, int n, int m) { rows<<<(n + 127) / 128, 128>>>(in, out, n, m); }
"""
SHARED = """
__global__ void scaled(const float* in, float* out, int m) {
  int t = threadIdx.x;
  const float* row = in + blockIdx.x * m;
  float sum = 0.0f;
  for (int i = 0; i < m; ++i) sum += row[i] * row[i];
  out[blockIdx.x * blockDim.x + t] = row[t % m] / (1 + sum);
}
void run(const float* in, float* out, int n, int m) { scaled<<<n, 128>>>(in, out, m); }
"""
COLUMN = ROW.replace("r * m + i", "i * n + r")
FOLDED = (
    ("fold-groups-once", WINDOW),
    ("scan-row", ROW),
    ("scan-row-parts", ROW),
    ("scan-columns", COLUMN),
    ("share-uniform-loops", SHARED),
)
#: Rows of no multiple of what is dealt out, of one element, of none.
SIZES = ((40, 200), (5, 3), (2, 1), (3, 0))
MAIN = (
    "int n = atoi(argv[1]), m = atoi(argv[2]);\n"
    "  Device<float> a(n * m), b(n * m, 2); run(a, b, n, m); b.show();"
)


@pytest.mark.parametrize(("slug", "code"), FOLDED)
def test_integers_that_cut_off_what_is_added_are_left(slug: str, code: str) -> None:
    assert rewritten(slug, code)[0].edits
    result, _ = rewritten(slug, code.replace("float sum = 0.0f", "int sum = 0"))
    assert "cut off" in result.refused
    whole = code.replace("float sum = 0.0f", "int sum = 0").replace("const float*", "const int*")
    assert rewritten(slug, whole)[0].edits


def test_extremes_that_drop_bits_are_left() -> None:
    code = WINDOW.replace("float sum = 0.0f", "signed char sum = -100")
    wide = code.replace("sum += in[i + k];", "{ int v = in[i + k]; if (v > sum) sum = v; }")
    assert "wider" in rewritten("fold-groups-once", wide)[0].refused
    same = wide.replace("int v", "signed char v")
    assert rewritten("fold-groups-once", same)[0].edits


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int n, int radius) {\n  int", "int n, unsigned radius) {\n  int"),
        ("(int k", "(unsigned k"),
        ("k <= radius", "k <= (radius | 1u)"),
    ],
)
def test_windows_with_unsigned_bounds_are_left(old: str, new: str) -> None:
    assert old in WINDOW
    assert "unsigned" in rewritten("fold-groups-once", WINDOW.replace(old, new))[0].refused


def test_blocks_are_counted_as_wide_as_the_outputs() -> None:
    wide = WINDOW.replace("int i = blockIdx.x", "long long i = (long long)blockIdx.x").replace(
        "int n", "long long n"
    )
    assert "(long long)blockIdx.x * kTile" in rewritten("fold-groups-once", wide)[1]


@pytest.mark.parametrize(
    ("slug", "code"), [("scan-row", ROW), ("scan-row-parts", ROW), ("scan-columns", COLUMN)]
)
def test_scans_that_read_what_they_stored_by_another_name_are_left(slug: str, code: str) -> None:
    place = "i * n + r" if code is COLUMN else "r * m + i"
    twice = code.replace("(in, out, n, m); }", "(out, out, n, m); }")
    assert rewritten(slug, twice)[0].edits
    before = place.replace("i", "(i - 1)", 1) if code is COLUMN else f"{place} - 1"
    shifted = twice.replace(f"in[{place}]", f"(i > 0 ? in[{before}] : 1.0f)")
    assert "twice" in rewritten(slug, shifted)[0].refused


@pytest.mark.compiler
def test_what_a_scan_counts_by_a_comparison_stays_in_brackets() -> None:
    code = ROW.replace("float sum = 0.0f", "unsigned sum = 0")
    for value in ("in[r * m + i] > 0", "in[r * m + i] > 0 && i != 3"):
        text = program(code.replace("sum += in[r * m + i]", f"sum += {value}"), MAIN)
        holds("scan-row-parts", text, *SIZES)
        holds("scan-row", text, *SIZES)
