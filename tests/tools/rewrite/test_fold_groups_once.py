# SPDX-License-Identifier: Apache-2.0
"""Windows along a line, folded from groups of elements: programs print the same on the host, whatever the window."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SLUG = "fold-groups-once"
TRAILING = """
__global__ void moving_mean(const float* x, float* y, int n, int window) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
  int used = 0;
  for (int k = 0; k < window; k++) {
    int j = i - k;
    if (j < 0) continue;
    sum += x[j];
    used++;
  }
  y[i] = sum / used;
}
void run(const float* x, float* y, int n, int w) { moving_mean<<<(n + 255) / 256, 256>>>(x, y, n, w); }
"""
CENTRED = """
__global__ void highest(const short *in, short *out, size_t pitch, int cols, int radius)
{
    const int col = threadIdx.x + blockIdx.x * 128;
    const int row = blockIdx.y;
    const short *line = in + row * pitch;
    short top = -32768;
    if (col < cols) {
        for (int d = -radius; d <= radius; ++d) {
            int at = min(max(col + d, 0), cols - 1);
            top = max(top, line[at]);
        }
        out[row * pitch + col] = top;
    }
}
void run(const short* x, short* y, int n, int w) {
    dim3 grid((n / 2 + 127) / 128, 2);
    highest<<<grid, 128>>>(x, y, n / 2, n / 2, w);
}
"""
LATE = """
__global__ void energy(const double* x, double* y, unsigned int n, unsigned int w) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= w && i < n) {
    double e = 1.0;
    for (unsigned int k = 0; k <= w; ++k) e += x[i - k] * x[i - k];
    y[i] = e;
  }
}
void run(const double* x, double* y, int n, int w) { energy<<<(n + 255) / 256, 256>>>(x, y, n, w); }
"""
MAIN = "  int n = atoi(argv[1]), w = atoi(argv[2]); Device<%s> x(n), y(n, 2); run(x, y, n, w); y.show();"
PROGRAMS = {
    "a trailing mean": (TRAILING, MAIN % "float"),
    "a centred maximum of rows": (CENTRED, MAIN % "short"),
    "only whole windows": (LATE, MAIN % "double"),
}
#: Windows of one element, of less than a group, of many groups, of more than is held at a time and than there is.
SIZES = ((1000, 1), (3001, 9), (2600, 200), (5000, 2600), (60, 100))


@pytest.mark.compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_groups_of_a_window_are_folded_once(name: str) -> None:
    after = holds(SLUG, program(*PROGRAMS[name]), *SIZES, relative=2e-5, absolute=1e-5)
    assert "__syncthreads" in after
    assert rewritten(SLUG, after)[0].refused


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sum += x[j];", "sum += x[j] * x[k];"),  # a weight
        ("sum += x[j];", "sum = x[j] - sum;"),
        ("sum += x[j];", "sum += x[j]; if (sum > 3) break;"),
        ("int j = i - k;", "int j = i - 2 * k;"),
        ("int j = i - k;", "int j = (i + k) % n;  y[n - 1] = 0;"),
        ("k < window", "k < window + i % 2"),
        ("k < window", "k < 9"),
        ("if (j < 0) continue;", "if (j < 0) { used++; continue; }"),
        ("int used = 0;", "int used = i;"),
    ],
)
def test_what_differs_from_window_to_window_is_left(old: str, new: str) -> None:
    assert old in TRAILING
    assert rewritten(SLUG, TRAILING.replace(old, new))[0].refused
