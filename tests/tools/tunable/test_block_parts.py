# SPDX-License-Identifier: Apache-2.0
"""Edits that take a block for one of whole halves or whole warps, where the run says how long it is."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.tunable.block_parts import why_parts_of_block
from warplens_tools.tunable.source import File

PROGRAM = """
__global__ void sums(const float* x, float* out, int n) {{
    __shared__ float held[1024];
    const int t = threadIdx.x;
    float s = 0;
    for (int i = t; i < n; i += blockDim.x) s += x[i];
    {0}
    if (t == 0) out[blockIdx.x] = held[0];
}}
int main(int argc, char** argv) {{
    {1}
    sums<<<64, {2}>>>(nullptr, nullptr, 5);
}}
"""
ANY = """held[t] = s; __syncthreads();
    for (int left = blockDim.x; left > 1;) {
        const int half = (left + 1) / 2;
        if (t + half < left) held[t] += held[t + half];
        __syncthreads();
        left = half;
    }"""
HALVES = """held[t] = s; __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) held[t] += held[t + half];
        __syncthreads();
    }"""
BY_ANOTHER_NAME = HALVES.replace(
    "for (int", "const int all = static_cast<int>(blockDim.x); for (int"
).replace("blockDim.x / 2", "all >> 1")
WARPS = """for (int step = 16; step > 0; step /= 2) s += __shfl_xor_sync(0xffffffffu, s, step);
    if (t % 32 == 0) held[t / 32] = s;
    __syncthreads();
    if (t == 0) for (int w = 1; w < static_cast<int>(blockDim.x) / 32; ++w) held[0] += held[w];"""
ONE_SLOT = """if (t == 0) held[0] = 0; __syncthreads();
    for (int step = 16; step > 0; step >>= 1) s += __shfl_down_sync(~0u, s, step);
    if ((t & 31) == 0) atomicAdd(held, s); __syncthreads();"""
DOUBLED = """held[t] = s; __syncthreads();
    for (int step = 1; step < blockDim.x; step *= 2) {
        if (t % (2 * step) == 0) held[t] += held[t + step];
        __syncthreads();
    }"""
RUN = "const int threads = argc > 1 ? atoi(argv[1]) : 256;"


def _said(edit: str, host: str = RUN, block: str = "threads", was: str = ANY) -> str:
    files = []
    for how in (was, edit):
        text = SourceText(PROGRAM.format(how, host, block))
        files.append(File(text, parse(text, "k.cu")))
    return why_parts_of_block(*files)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (HALVES, "takes halves for all of a block of sums"),
        (BY_ANOTHER_NAME, "takes"),
        (WARPS, "takes whole parts for all of a block of sums"),
        (ONE_SLOT, "takes lanes of whole warps for all of a block of sums"),
        (DOUBLED, "takes doubled steps for all of a block of sums"),
    ],
)
def test_whole_parts_of_any_block_are_told(edit: str, said: str) -> None:
    assert said in _said(edit)
    assert said in _said(edit, "const dim3 block(atoi(argv[1]));", "block")


@pytest.mark.parametrize(
    ("edit", "host", "block", "was"),
    [
        (ANY, RUN, "threads", ANY),
        # a length of the text, and of numbers that the host minds
        (HALVES, "", "256", ANY),
        (HALVES, "const int threads = 256;", "threads", ANY),
        (WARPS, RUN.replace("atoi(argv[1])", "atoi(argv[1]) / 32 * 32"), "threads", ANY),
        (WARPS, f"{RUN} if (threads % 32) return 1;", "threads", ANY),
        (HALVES, f"{RUN} if (threads & (threads - 1)) return 1;", "threads", ANY),
        (HALVES, "int threads = 32; while (threads < argc) threads *= 2;", "threads", ANY),
        (
            WARPS,
            "int least, threads; cudaOccupancyMaxPotentialBlockSize(&least, &threads, sums);",
            "threads",
            ANY,
        ),
        # the kernel's own
        (WARPS, RUN, "threads", HALVES),
        # what is left is asked for
        (HALVES.replace("held[t] = s;", "held[t] = s; if (blockDim.x % 64) return;"), RUN, "threads", ANY),
        (DOUBLED.replace("== 0)", "== 0 && t + step < blockDim.x)"), RUN, "threads", ANY),
        (ANY.replace("(left + 1) / 2", "left - left / 2"), RUN, "threads", ANY),
    ],
)
def test_what_holds_for_the_block_is_not(edit: str, host: str, block: str, was: str) -> None:
    assert _said(edit, host, block, was) == ""
