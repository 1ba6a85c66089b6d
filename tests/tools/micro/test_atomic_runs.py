# SPDX-License-Identifier: Apache-2.0
"""How many threads are said to meet at the address of an atomic."""

from __future__ import annotations

import pytest

from warplens_tools.micro.global_atomic_contention import GlobalAtomicContention
from warplens_tools.testing import views

KERNEL = """\
__global__ void k(const float *a, float *o, int n, int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&o[PLACE], a[i]);
}
void f(const float *a, float *o, int n, int m) { k<<<1024, 256>>>(a, o, n, m); }
"""


@pytest.mark.parametrize(
    ("place", "who"),
    [
        ("i / n", "neighbouring threads, a run-time number of them, update one address of o"),
        ("(i + m) / (n * m)", "neighbouring threads, a run-time number of them, update one address of o"),
        ("blockIdx.x", "all threads of a block update one address of o"),
        ("blockIdx.x / n", "all threads of a block update one address of o"),
        ("0", "every thread of the grid updates one address of o"),
    ],
)
def test_who_meets_at_an_address(place: str, who: str) -> None:
    (view,) = views(KERNEL.replace("PLACE", place))
    (told,) = GlobalAtomicContention.run(view)
    assert who in told.message
