# SPDX-License-Identifier: Apache-2.0
"""Lanes that do others' work by a digest are told, by what nvcc makes of them."""

from __future__ import annotations

import pytest
from tests.tools.toolchain.test_ptx_ends import made

from warplens_tools.toolchain.ptx_mates import by_mates, mates_in

pytestmark = pytest.mark.compiler

COUNTED = """
typedef unsigned long long u64;
__global__ void counted(const u64* words, const unsigned* bins, u64* keys, unsigned* counts, unsigned mask, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const u64 word = words[i];
    const unsigned bin = bins[i];
    unsigned slot = (unsigned)(word * 0x9e3779b97f4a7c15ull >> 40) & mask;
    WORK
}
"""
SLOTS = """
    for (unsigned tried = 0; tried <= mask; ++tried) {
        const u64 before = atomicCAS(&keys[slot], ~0ull, word);
        if (before == ~0ull || before == word) { atomicAdd(&counts[slot], MANY); return; }
        slot = slot + 1 & mask;
    }
"""
ALONE = SLOTS.replace("MANY", "1u")
MATES = (
    "const unsigned mates = __match_any_sync(__activemask(), KEY);"
    "if ((threadIdx.x & 31) != __ffs(mates) - 1) return;" + SLOTS.replace("MANY", "(unsigned)__popc(mates)")
)
BINS = (
    "const unsigned mates = __match_any_sync(__activemask(), KEY);"
    "if ((threadIdx.x & 31) == __ffs(mates) - 1) atomicAdd(&counts[PLACE], __popc(mates));"
)


def _said(edit: str) -> str:
    return by_mates(*(mates_in(made(COUNTED, WORK=how)) for how in (ALONE, edit)))


@pytest.mark.parametrize(
    "work",
    [
        MATES.replace("KEY", "(unsigned)(word * 0x9e3779b97f4a7c15ull >> 33)"),
        MATES.replace("KEY", "(unsigned)word"),
        MATES.replace("KEY", "(unsigned)(word ^ word >> 32)"),
        MATES.replace("KEY", "slot"),
        BINS.replace("KEY", "bin * 2654435761u >> 8").replace("PLACE", "bin"),
    ],
)
def test_a_digest_is_told(work: str) -> None:
    assert "a digest" in _said(work)


@pytest.mark.parametrize(
    "work",
    [
        MATES.replace("KEY", "word"),
        MATES.replace("KEY", "word * 0x9e3779b97f4a7c15ull"),
        BINS.replace("KEY", "bin").replace("PLACE", "bin"),
        BINS.replace("KEY", "bin >> 4").replace("PLACE", "bin >> 4"),
        # what each lane does for itself
        BINS.replace("KEY", "bin >> 4").replace("PLACE", "bin >> 4") + " keys[i] = word * bin;",
        ALONE,
    ],
)
def test_what_is_matched_whole_is_not(work: str) -> None:
    assert _said(work) == ""
