# SPDX-License-Identifier: Apache-2.0
"""Numbers of a build or an instantiation that an edit takes for this one's."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.tunable.source import File
from warplens_tools.tunable.values_lost import why_values_lost

HEAD = """
#ifndef STEPS
#define STEPS 256
#endif
#define ROUNDS 8
template <class T> __device__ T first(const T* x) { return x[0]; }
template <int N> __device__ float summed(const float* x) {
    float s = 0; for (int k = 0; k < N; ++k) s += x[k]; return s;
}
template <typename T, int WIDTH = 3, bool EVEN = true>
__global__ void k(const T* x, T* y, const T* knots) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    BODY
}
int main() { k<float, 3><<<1, 32>>>(nullptr, nullptr, nullptr); }
"""
SUM = "T s = 0; for (int c = 0; c < WIDTH; ++c) s += x[i * WIDTH + c]; y[i] = EVEN ? s : -s;"
KNOTS = "int at = min((int)x[i], STEPS - 1); y[i] = knots[at] + WIDTH % 2 + EVEN == 0;"
HELD = "__shared__ T near[SIZE]; for (int k = threadIdx.x; k <= STEPS; k += 32) near[k] = knots[k]; __syncwarp();"


def _said(was: str, now: str) -> str:
    files = []
    for body in (was, now):
        text = SourceText(HEAD.replace("BODY", body))
        files.append(File(text, parse(text, "k.cu")))
    return why_values_lost(files[0], files[1], "k")


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (SUM, "const T* p = x + i * WIDTH; const T s = p[0] + p[1] + p[2]; y[i] = EVEN ? s : -s;", "WIDTH"),
        (SUM, "T s = 0; for (int c = 0; c < WIDTH; ++c) s += x[i * WIDTH + c]; y[i] = s;", "EVEN"),
        (KNOTS, HELD.replace("SIZE", "257") + KNOTS.replace("knots[", "near["), "near up to STEPS"),
    ],
)
def test_what_holds_for_this_build_alone_is_told(was: str, now: str, said: str) -> None:
    assert said in _said(was, now)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        # handed on, or asked in another way
        (SUM, "T s = summed<WIDTH>(x + i * WIDTH); y[i] = EVEN ? s : -s;"),
        (SUM, "T s = first(x + i * WIDTH); if (WIDTH > 1) s += x[i * WIDTH + 1]; y[i] = EVEN ? s : -s;"),
        (KNOTS, HELD.replace("SIZE", "STEPS + 1") + KNOTS.replace("knots[", "near[")),
        # nobody defines it otherwise
        (KNOTS, "T near[8]; for (int k = 0; k < ROUNDS; ++k) near[k] = knots[k];" + KNOTS),
        # what the original holds so may stay
        (HELD.replace("SIZE", "257") + KNOTS, HELD.replace("SIZE", "257") + KNOTS.replace("min", "max")),
    ],
)
def test_what_follows_the_build_is_not(was: str, now: str) -> None:
    assert _said(was, now) == ""
