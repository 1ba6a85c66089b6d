# SPDX-License-Identifier: Apache-2.0
"""Records among plain words are found by how a kernel stores them, by what nvcc makes of it."""

from __future__ import annotations

import pytest
from tests.tools.toolchain.test_ptx_ends import made

from warplens_tools.run.elements import probed_parameters
from warplens_tools.toolchain.ptx_records import records_in

pytestmark = pytest.mark.compiler

APPENDED = """
__global__ void appended(const int* keys, TYPE* out, int* found, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || keys[i] < 0) return;
    const int at = atomicAdd(found, 1);
    STORES
}
"""


def _records(stores: str, kind: str = "int") -> dict[int, int]:
    (found,) = records_in(made(APPENDED, TYPE=kind, STORES=stores)).values()
    return dict(found)


@pytest.mark.parametrize(
    ("stores", "kind", "size"),
    [
        ("out[2 * at] = i; out[2 * at + 1] = keys[i];", "int", 8),
        ("int* to = out + 3 * at; to[2] = at; to[0] = i; to[1] = keys[i];", "int", 12),
        ("out[2 * size_t(at)] = i; out[2 * size_t(at) + 1] = keys[i];", "long long", 16),
    ],
)
def test_words_that_are_stored_side_by_side_belong_together(stores: str, kind: str, size: int) -> None:
    assert _records(stores, kind) == {1: size}


@pytest.mark.parametrize(
    "stores",
    [
        "out[at] = i;",
        # one word further each time, so that records would overlap
        "out[at] = i; out[at + 1] = keys[i];",
        # words between that are not written, some alone, and halves of the array
        "out[4 * at] = i; out[4 * at + 1] = keys[i];",
        "out[2 * at] = i; out[2 * at + 1] = keys[i]; if (i == 7) out[n] = 0;",
        "out[at] = i; out[at + n] = keys[i];",
        "out[2 * at] = i; atomicMax(out + 2 * at + 1, keys[i]);",
    ],
)
def test_other_words_do_not(stores: str) -> None:
    assert _records(stores) == {}


def test_the_probe_is_told_of_records_of_single_numbers() -> None:
    kernel = "k(int const*, int*, float2*, float*)"
    found = probed_parameters(kernel, together={0: 8, 1: 8, 2: 16, 3: 12})
    assert [p.whole for p in found] == [0, 8, 8, 12]
    assert [p.whole for p in probed_parameters(kernel)] == [0, 0, 8, 0]
