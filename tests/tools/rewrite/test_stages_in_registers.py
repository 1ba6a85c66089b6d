# SPDX-License-Identifier: Apache-2.0
"""Stages of butterflies in shared memory, several at a time: the same bits, however a kernel finds its pairs."""

from __future__ import annotations

import pytest
from tests.host_cuda import same_results
from tests.tools.rewrite.on_host import holds, program, rewritten

HADAMARD = """
__global__ void hadamard(float* x, int n) {
  extern __shared__ float s[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = x[blockIdx.x * n + i];
  __syncthreads();
  for (int h = 1; h < n; h *= 2) {
    for (int k = threadIdx.x; k < n / 2; k += blockDim.x) {
      int i = k / h * 2 * h + k % h;
      float a = s[i], b = s[i + h];
      s[i] = a + b;
      s[i + h] = a - b;
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[blockIdx.x * n + i] = s[i];
}
"""
MAIN = """
  int n = atoi(argv[1]); Device<float> x(3 * n);
  hadamard<<<3, 64, n * sizeof(float)>>>(x, n); x.show();
"""
PROGRAMS = {
    "sums and differences": (HADAMARD, MAIN, "part[e + (1 << stage)] = a - b;"),
    "masks, and a place for the second": (
        HADAMARD.replace(
            "int i = k / h * 2 * h + k % h;",
            "const int i = ((k & ~(h - 1)) << 1) | (k & (h - 1));\n      const int j = i + h;",
        )
        .replace("s[i + h]", "s[j]")
        .replace("h *= 2", "h <<= 1"),
        MAIN,
        "part[e + (1 << stage)]",
    ),
    "a Fourier transform of two arrays": (
        """
#define LENGTH 256
__global__ void fft(const float* in, float* re, float* im) {
    __shared__ float sr[LENGTH], si[LENGTH];
    const int t = threadIdx.x;
    for (int i = t; i < LENGTH; i += blockDim.x) { sr[i] = in[blockIdx.x * LENGTH + i]; si[i] = 0.0f; }
    __syncthreads();
    for (int len = 2; len <= LENGTH; len <<= 1) {
        const int half = len / 2;
        for (int k = t; k < LENGTH / 2; k += blockDim.x) {
            int j = k % half;
            int i = k / half * len + j;
            float angle = -6.2831853f * j / len;
            float c = cosf(angle), d = sinf(angle);
            float xr = sr[i + half] * c - si[i + half] * d, xi = sr[i + half] * d + si[i + half] * c;
            sr[i + half] = sr[i] - xr;
            si[i + half] = si[i] - xi;
            sr[i] += xr;
            si[i] += xi;
        }
        __syncthreads();
    }
    for (int i = t; i < LENGTH; i += blockDim.x) {
        re[blockIdx.x * LENGTH + i] = sr[i];
        im[blockIdx.x * LENGTH + i] = si[i];
    }
}
""",
        "  int n = atoi(argv[1]) / 16; Device<float> x(n * 256), r(n * 256), m(n * 256);\n"
        "  fft<<<n, 64>>>(x, r, m); r.show(); m.show();",
        "int j = k % half;",
    ),
    "numbers modulo a prime": (
        """
template <int N>
__global__ void ntt(unsigned* x, const unsigned* roots, unsigned p) {
  __shared__ unsigned s[N];
  s[threadIdx.x] = x[blockIdx.x * N + threadIdx.x] % p;
  s[threadIdx.x + N / 2] = x[blockIdx.x * N + threadIdx.x + N / 2] % p;
  __syncthreads();
  for (int h = 1; h < N; h *= 2) {
    for (int k = threadIdx.x; k < N / 2; k += blockDim.x) {
      int low = 2 * h * (k / h) + (k % h);
      unsigned a = s[low];
      unsigned b = (unsigned)((unsigned long long)s[low + h] * roots[k % h * (N / 2 / h)] % p);
      s[low] = (a + b) % p;
      s[low + h] = (a + p - b) % p;
    }
    __syncthreads();
  }
  x[blockIdx.x * N + threadIdx.x] = s[threadIdx.x];
  x[blockIdx.x * N + threadIdx.x + N / 2] = s[threadIdx.x + N / 2];
}
""",
        "  int n = atoi(argv[1]) / 16; Device<unsigned> x(n * 128), w(64, 3);\n"
        "  ntt<128><<<n, 64>>>(x, w, 7681u); x.show();",
        "part[e] = (a + b) % p;",
    ),
    "the greater one last": (
        HADAMARD.replace("s[i] = a + b;", "if (a > b) { s[i] = b; s[i + h] = a; }").replace(
            "      s[i + h] = a - b;\n", ""
        ),
        MAIN,
        "if (a > b)",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_stay(name: str) -> None:
    kernel, main, written = PROGRAMS[name]
    after = holds("stages-in-registers", program(kernel, main), (256,), (64,), (32,))
    assert written in after and "<<= " in after


@pytest.mark.compiler
@pytest.mark.parametrize("name", ["sums and differences", "masks, and a place for the second"])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_lengths_that_are_no_whole_groups(name: str, stages: int) -> None:
    kernel, main, _ = PROGRAMS[name]
    before = program(kernel, main)
    after = rewritten("stages-in-registers", before)[1].replace("kStages = 2", f"kStages = {stages}")
    assert f"kStages = {stages};" in after
    for length in (1, 2, 3, 7, 15, 63, 127, 4, 8, 128, 512):
        same_results(before, after, str(length), orders=(1,))


def test_numbers_that_are_whole_groups_need_no_guard() -> None:
    kernel, main, _ = PROGRAMS["a Fourier transform of two arrays"]
    assert (
        "(len << (kStages - 1)) <= LENGTH; len <<= kStages"
        in rewritten("stages-in-registers", program(kernel, main))[1]
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("k / h * 2 * h + k % h", "k / h * 3 * h + k % h"),
        ("s[i] = a + b;", "s[i] = a + b + s[0];"),
        ("s[i] = a + b;", "s[i] = a + b; x[i] = a;"),
        ("h *= 2", "h *= 3"),
        ("h = 1", "h = 3"),
        ("h < n; h", "h != n; h"),
        ("k < n / 2; k", "k < n / 2 / h; k"),
        ("k = threadIdx.x;", "k = threadIdx.x + 1;"),
        ("k += blockDim.x", "k += 2 * blockDim.x"),
        ("s[i] = a + b;", "s[i] = a + b * threadIdx.x;"),
        ("s[i] = a + b;", "if (a < 0) continue; s[i] = a + b;"),
        ("    __syncthreads();\n  }\n", "  }\n"),
    ],
)
def test_left_alone(old: str, new: str) -> None:
    changed = HADAMARD.replace(old, new)
    assert changed != HADAMARD and rewritten("stages-in-registers", changed)[0].refused
