# SPDX-License-Identifier: Apache-2.0
"""A loop over a few words that a block's threads share out is no loop of each thread."""

from __future__ import annotations

import pytest
from tests.tools.machine.kernels import view_of

from warplens_tools.kernel import KernelView
from warplens_tools.machine.single_turns import turned_weights

SOURCE = """\
__global__ void k(const int *key, const float *a, float *o)
{{
    __shared__ float s[40];
    for (int i = {first}; i < {words}; i += {step})
        s[i] = 0.0f;
    __syncthreads();
    atomicAdd(&s[key[blockIdx.x * 256 + threadIdx.x]], a[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x < 40) o[threadIdx.x] = s[threadIdx.x];
}}
void f(const int *key, const float *a, float *o) {{ k<<<4096, 256>>>(key, a, o); }}
"""
LISTING = """\
S2R R0, SR_TID.X
.L:
STS [R6], RZ
IADD3 R6, R6, R7, RZ
@P0 BRA `(.L)
BAR.SYNC.DEFER_BLOCKING 0x0
LDG.E R4, desc[UR4][R2.64]
.A:
LDS R8, [R4]
FADD R9, R8, R5
ATOMS.CAST.SPIN R9, [R4], R8, R9
@!P1 BRA `(.A)
BAR.SYNC.DEFER_BLOCKING 0x0
STG.E desc[UR4][R10.64], R8
EXIT"""
LINES = (4, 5, 4, 4, 6, 7, 7, 7, 7, 7, 8, 9, 10)


def view(words: str = "40", first: str = "threadIdx.x", step: str = "blockDim.x") -> KernelView:
    return view_of(SOURCE.format(words=words, first=first, step=step), LISTING, LINES)


def test_a_loop_of_one_turn_a_thread_weighs_as_what_stands_around_it() -> None:
    found = turned_weights(view())
    assert found[1:4] == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("given", [{"words": "4096"}, {"step": "1"}, {"words": "*key"}])
def test_other_loops_weigh_as_loops(given: dict[str, str]) -> None:
    known = view(**given)
    assert turned_weights(known) == known.sass.weights
    assert known.sass.weights[1] > 1.0


def test_words_of_their_own_still_cost_each_lane_a_turn() -> None:
    """The gain of atomics that no longer meet is not that of none, nor bounded by turns that no thread takes."""
    few, many = view(), view(words="4096")
    (conflict,) = few.contention.atomics.in_shared
    gain = few.contention.gain("shared atomics")
    assert gain is not None
    assert 1.5 < gain.estimate <= conflict.lanes + 0.01
    other = many.contention.gain("shared atomics")
    assert other is not None
    assert other.estimate < gain.estimate
