# SPDX-License-Identifier: Apache-2.0
"""Threads that wait for a lock are told from those that update, and more of them are promised nothing."""

from __future__ import annotations

import pytest
from tests.tools.machine.kernels import view_of

from warplens_tools.micro.common.spins import spins
from warplens_tools.micro.grid_too_small import GridTooSmall

#: Each block walks over its part of a list, in a launch that leaves most SMs idle.
WALK = """\
__global__ void k(int *a, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        a[i] = a[i] + 1;
}
void f(int *a) { k<<<40, 256>>>(a, 1 << 24); }
"""
LOOP = "S2R R0, SR_TID.X\n.W:\nLDG.E R3, desc[UR4][R2.64]\n{}STG.E desc[UR4][R2.64], R3\n@P0 BRA `(.W)\nEXIT"
LOCK = """\
.L:
ATOMG.E.CAS.STRONG.GPU PT, R8, desc[UR4][R6.64], R16, R17
ISETP.NE.AND P1, PT, R8, RZ, PT
@P1 BRA `(.L)
"""
#: As a lock that an object points to: where it is, is loaded each time.
LOADED_LOCK = LOCK.replace(".L:\n", ".L:\nLDG.E.64 R6, desc[UR4][R4.64]\n").replace("R8", "R6")
#: What is swapped in is worked out from what was there.
UPDATE = LOCK.replace("@P1", "IADD3 R17, R8, 0x1, RZ\n@P1")
#: The word that the swap expects is loaded each time.
LOADED_UPDATE = LOCK.replace(".L:\n", ".L:\nLDG.E R16, desc[UR4][R6.64]\nIADD3 R17, R16, 0x1, RZ\n")
#: Each turn goes to where the one before led.
CHASE = LOCK.replace(".L:\n", ".L:\nLDG.E.64 R6, desc[UR4][R6.64]\n")


def spun(inside: str) -> bool:
    return bool(list(spins(view_of(WALK, LOOP.format(inside), (3, 4)).sass)))


def test_a_lock_is_a_spin_wherever_it_stands() -> None:
    assert spun(LOCK)
    assert spun(LOADED_LOCK)


@pytest.mark.parametrize("inside", ["", UPDATE, LOADED_UPDATE, CHASE])
def test_an_update_or_a_walk_is_none(inside: str) -> None:
    assert not spun(inside)


@pytest.mark.parametrize("inside", [LOCK, LOADED_LOCK])
def test_no_larger_launch_is_promised_to_threads_that_wait_for_each_other(inside: str) -> None:
    (free,) = GridTooSmall(view_of(WALK, LOOP.format(""), (3, 4, 4, 3, 5))).check()
    assert free.gain is not None and free.gain.estimate > 1.5
    lines = (3, *(4 for _ in inside.strip().splitlines()), 4, 4, 3, 5)
    (held,) = GridTooSmall(view_of(WALK, LOOP.format(inside), lines)).check()
    assert held.gain is None
    assert held.severity == "information"
    assert "how long threads wait for each other" in held.missing
