# SPDX-License-Identifier: Apache-2.0
"""What shuffles save of a tree is little beside loads that its block waits for first."""

from __future__ import annotations

from tests.tools.machine.kernels import view_of

from warplens_tools.micro.barrier_heavy import BarrierHeavy

TREE = """\
__global__ void k(const int *at, const float *a, float *o)
{
    __shared__ float s[256];
    s[threadIdx.x] = a[at[blockIdx.x * 256 + threadIdx.x]];
    __syncthreads();
    for (int d = blockDim.x / 2; d > 0; d >>= 1) {
        if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x == 0) o[blockIdx.x] = s[0];
}
void f(const int *at, const float *a, float *o) { k<<<16384, 256>>>(at, a, o); }
"""
LISTING = """\
S2R R0, SR_TID.X
LDG.E R4, desc[UR4][R2.64]
LDG.E R5, desc[UR4][{}.64]
STS [R6], R5
BAR.SYNC.DEFER_BLOCKING 0x0
.L:
LDS R8, [R6]
LDS R9, [R7]
FADD R8, R8, R9
STS [R6], R8
BAR.SYNC.DEFER_BLOCKING 0x0
SHF.R.U32.HI R12, RZ, 0x1, R12
IADD3 R7, R6, R12, RZ
@P0 BRA `(.L)
LDS R9, [R6]
STG.E desc[UR4][R10.64], R9
EXIT"""
LINES = (4, 4, 4, 4, 5, 7, 7, 7, 7, 8, 6, 6, 6, 10, 10, 11)


def gained(listing: str) -> float:
    view = view_of(TREE, listing, LINES)
    tool, held = BarrierHeavy(view), view.waiting.residency
    assert held is not None
    steps = tool.short_steps(held)
    assert steps
    return tool._gain(steps, held).estimate


def test_loads_that_lead_to_each_other_leave_less_than_loads_side_by_side() -> None:
    side_by_side, led = gained(LISTING.format("R12")), gained(LISTING.format("R4"))
    assert side_by_side > 1.05 * led
    assert led > 1.1
