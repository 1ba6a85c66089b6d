# SPDX-License-Identifier: Apache-2.0
"""Bins in several copies: programs print the same, whoever counted in shared memory first, they or we."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SLUG = "bins-by-lane"
N = "  int n = atoi(argv[1]);\n"
SHARED = """
__global__ void histogram(const unsigned char* data, unsigned int* bins, int n) {
  __shared__ unsigned int part[256];
  part[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&part[data[i]], 1u);
  }
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], part[threadIdx.x]);
}
"""
MAIN = N + (
    "  Device<unsigned char> d(n); Device<int> b(256, 2); cudaMemset(b.data, 0, 1024);\n"
    "  histogram<<<3, 256>>>(d, (unsigned int*)b.data, n); b.show();"
)
PROGRAMS = {
    "in shared memory already": (SHARED, MAIN),
    "in global memory": (
        """
__global__ void histogram(const unsigned char* data, unsigned int* bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[data[i]], 1u);
}
""",
        N + "  Device<unsigned char> d(n); Device<int> b(256, 2); cudaMemset(b.data, 0, 1024);\n"
        "  histogram<<<(n + 255) / 256, 256>>>(d, (unsigned int*)b.data, n); b.show();",
    ),
    "sums by label, a block's own results": (
        """
#define CLASSES 5
__global__ void sums(const float *values, const int *labels, float *out, int n)
{
    __shared__ float sum[CLASSES];
    __shared__ int seen[CLASSES];
    if (threadIdx.x < CLASSES) {
        sum[threadIdx.x] = 0.0f;
        seen[threadIdx.x] = 0;
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int at = (labels[i] + 30) % CLASSES;
        atomicAdd(&sum[at], values[i]);
        atomicAdd(seen + at, 1);
    }
    __syncthreads();
    if (threadIdx.x < CLASSES)
        out[blockIdx.x * CLASSES + threadIdx.x] = seen[threadIdx.x] > 0 ? sum[threadIdx.x] / 2.0f : -1.0f;
}
""",
        "",
    ),
    "rounds of a block, a bin read by a condition": (
        """
constexpr int kBins = 61, kRounds = 3;
__global__ void rounds(const int* data, int* out, int n) {
  __shared__ int count[kBins];
  for (int r = 0; r < kRounds; ++r) {
    for (int b = threadIdx.x; b < kBins; b += blockDim.x) count[b] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
      if ((data[i] & 1) == r % 2) atomicAdd(&count[data[i] + 30], r + 1);
    __syncthreads();
    for (int b = threadIdx.x; b < kBins; b += blockDim.x) {
      const int found = count[b];
      if (found > 1) out[r * kBins + b] = found;
    }
    __syncthreads();
  }
}
""",
        N + "  Device<int> d(n), o(kRounds * kBins, 2); rounds<<<1, 96>>>(d, o, n); o.show();",
    ),
}
SIZES = ((5000,), (77,))


@pytest.mark.parametrize("name", [n for n in PROGRAMS if PROGRAMS[n][1]])
def test_bins_are_counted_in_copies(name: str) -> None:
    after = holds(SLUG, program(*PROGRAMS[name]), *SIZES)
    assert "kBinCopies" in after
    assert rewritten(SLUG, after)[0].refused


def test_a_statement_may_read_bins_of_two_arrays() -> None:
    code, _ = PROGRAMS["sums by label, a block's own results"]
    chosen = "seen[threadIdx.x] > 0 ? sum[threadIdx.x] / 2.0f : -1.0f"
    main = N + "  Device<float> v(n), o(10, 3); Device<int> l(n, 2); sums<<<2, 64>>>(v, l, o, n); o.show();"
    text = program(code.replace(chosen, "sum[threadIdx.x] + seen[threadIdx.x]"), main)
    after = holds(SLUG, text, *SIZES, relative=1e-4, absolute=1e-3)
    assert after.count("[BIN_COPIES]") == 2
    # what is read under a condition cannot be worked out before it: that array stays as it is
    after = holds(SLUG, program(code, main), *SIZES, relative=1e-4, absolute=1e-3)
    assert "seen[BIN_COPIES]" in after and "sum[CLASSES]" in after


REFUSED = {
    "part[threadIdx.x] = 0;": ("part[threadIdx.x] = bins[threadIdx.x];", "something else than zero"),
    "atomicAdd(&part[data[i]], 1u);": (
        "if (atomicAdd(&part[data[i]], 1u) == 0) bins[0] = 1;",
        "used otherwise",
    ),
    "    atomicAdd(&part": ("    if (part[data[i]] < 9) atomicAdd(&part", "read while it is counted in"),
    "part[threadIdx.x]);": ("part[threadIdx.x] + part[0]);", "several bins"),
    "unsigned int part[256]": ("unsigned int part[8000]", "no room"),
}


@pytest.mark.parametrize("old", REFUSED)
def test_what_is_more_than_counting_is_left_alone(old: str) -> None:
    new, why = REFUSED[old]
    assert old in SHARED
    assert why in rewritten(SLUG, program(SHARED.replace(old, new, 1), MAIN))[0].refused
