# SPDX-License-Identifier: Apache-2.0
"""Barriers between what threads write to global memory and what others read there, by what nvcc makes of them."""

from __future__ import annotations

import pytest
from tests.compiled import ptx_of_each

from warplens_tools.toolchain.ptx_barriers import barriers_in, without_barriers

pytestmark = pytest.mark.compiler

HEAD = "__global__ void k(NUMBER* x, const int* from, int n, int rounds, const float* y)"
#: Rounds in which each lane reads what others have written in the last one.
EXCHANGED = (
    "{ const int lane = threadIdx.x % 32; for (int r = 0; r < rounds; ++r) {"
    "for (int i = lane; i < n; i += 32) x[n * (r + 1) + i] = x[n * r + from[i]] * 2; BARRIER } }"
)
TURNED = (
    "{ x[threadIdx.x] = from[threadIdx.x]; BARRIER; x[n + threadIdx.x] = x[(threadIdx.x + 1) % 32] * 2; }"
)
BY_SHUFFLE = (
    "{ x[threadIdx.x] = from[threadIdx.x];"
    "x[n + threadIdx.x] = __shfl_sync(~0u, (float)from[threadIdx.x], threadIdx.x + 1) * 2; }"
)
#: Rows that are scaled where they lie, by a block or a warp: only the sum goes between threads.
BY_BLOCK = (
    "{ __shared__ float part[8]; for (int r = blockIdx.x; r < rounds; r += gridDim.x) { float sum = 0;"
    "for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[r * n + i];"
    "sum = __reduce_add_sync(~0u, (int)sum); if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;"
    "__syncthreads(); for (int i = threadIdx.x; i < n; i += blockDim.x) x[r * n + i] /= part[i % 8];"
    "__syncthreads(); } }"
)
BY_WARP = (
    "{ for (int r = blockIdx.x * 8 + threadIdx.x / 32; r < rounds; r += gridDim.x * 8) { float sum = 0;"
    "for (int i = threadIdx.x % 32; i < n; i += 32) sum += x[r * n + i];"
    "sum = __reduce_add_sync(~0u, (int)sum);"
    "for (int i = threadIdx.x % 32; i < n; i += 32) x[r * n + i] /= sum; } }"
)
#: What is copied in, and then read by others beside what they have written themselves.
COPIED = (
    "{ const int lane = threadIdx.x % 32; for (int r = 0; r < rounds; ++r) {"
    "for (int i = lane; i < n; i += 32) x[i] = y[i]; BARRIER;"
    "for (int i = lane; i < n; i += 32) { x[n + i] = x[n + i - from[r]]; __syncwarp(); } x += 2 * n; } }"
)
MADE = {
    "copied in": COPIED.replace("BARRIER", "__syncwarp()"),
    "bare copied in": COPIED.replace("BARRIER", ""),
    "copied in by integers": COPIED.replace("BARRIER", "__syncwarp()").replace("y[i]", "from[i]"),
    "bare copied in by integers": COPIED.replace("BARRIER", "").replace("y[i]", "from[i]"),
    "rounds": EXCHANGED.replace("BARRIER", "__syncwarp();"),
    "rounds of a block": EXCHANGED.replace("BARRIER", "__syncthreads();"),
    "bare rounds": EXCHANGED.replace("BARRIER", ""),
    "once": TURNED.replace("BARRIER", "__syncwarp()"),
    "bare once": TURNED.replace("BARRIER", ""),
    "by shuffle": BY_SHUFFLE,
    "rows of blocks": BY_BLOCK,
    "rows of warps": BY_WARP,
}


@pytest.fixture(scope="module")
def compiled() -> dict[str, str]:
    heads = {name: HEAD.replace("NUMBER", "int" if "integers" in name else "float") for name in MADE}
    return ptx_of_each({name: f"{heads[name]} {body}\n" for name, body in MADE.items()}, "k")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("rounds", "bare rounds", True),
        ("rounds of a block", "bare rounds", True),
        ("once", "bare once", True),
        ("rounds", "rounds of a block", False),
        ("copied in", "bare copied in", True),
        ("copied in by integers", "bare copied in by integers", True),
        ("bare copied in", "copied in", False),
        ("bare rounds", "bare rounds", False),
        ("bare once", "once", False),
        ("once", "by shuffle", False),
        ("rows of blocks", "rows of warps", False),
    ],
)
def test_a_barrier_that_is_left_out_is_told(
    compiled: dict[str, str], before: str, after: str, told: bool
) -> None:
    said = without_barriers(barriers_in(compiled[before]), barriers_in(compiled[after]))
    assert ("no barrier between what threads write behind parameter 1" in said) == told == bool(said)
