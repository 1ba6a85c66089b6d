# SPDX-License-Identifier: Apache-2.0
"""Numbers that share a word are told where they may not fit, by what nvcc makes of them."""

from __future__ import annotations

import pytest
from tests.compiled import ptx_of_each

from warplens_tools.toolchain.ptx_packed import Packed, packed_in, packs_more

pytestmark = pytest.mark.compiler

HEAD = """
typedef unsigned long long Wide;
__global__ void largest(const int* in, const unsigned char* bytes, const float* far, int* out, int n) {
    __shared__ unsigned kept;
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) kept = 0;
    __syncthreads();
"""
BODIES = {
    "apart": """
    int top = 0, place = -1;
    for (int k = lane; k < n; k += 32) if (in[k] > top) { top = in[k]; place = k; }
    out[lane] = top; out[lane + 32] = place;""",
    "one key": """
    unsigned key = 0;
    for (int k = lane; k < n; k += 32) key = max(key, (unsigned)in[k] << 12 | (~k & 0xfff));
    key = __reduce_max_sync(~0u, key);
    out[lane] = key >> 12; out[lane + 32] = ~key & 0xfff;""",
    "one shuffle": """
    int top = 0, place = -1;
    for (int k = lane; k < n; k += 32) if (in[k] > top) { top = in[k]; place = k; }
    const int both = __shfl_up_sync(~0u, top << 16 | (place & 0xffff), 1);
    out[lane] = both >> 16; out[lane + 32] = (both << 16) >> 16;""",
    "two sums": """
    long long both = 0;
    for (int k = lane; k < n; k += 32) both += ((long long)(in[k] * 3) << 24) + bytes[k];
    out[lane] = both >> 24; out[lane + 32] = both & 0xffffff;""",
    "a number for its last bits": """
    unsigned nearest = ~0u;
    for (int k = lane; k < n; k += 32) nearest = min(nearest, (__float_as_uint(far[k]) & 0xffff0000u) | k);
    out[lane] = nearest & 0xffff;""",
    "a key in shared memory": """
    for (int k = lane; k < n; k += 32) atomicMax(&kept, (unsigned)in[k] << 10 | k);
    __syncthreads();
    out[lane] = kept >> 10; out[lane + 32] = kept & 0x3ff;""",
    "a wide key": """
    Wide key = 0;
    for (int k = lane; k < n; k += 32) {
        const Wide now = (Wide)(unsigned)in[k] << 32 | (unsigned)k;
        key = now > key ? now : key;
    }
    for (int step = 16; step > 0; step /= 2) {
        const Wide other = __shfl_xor_sync(~0u, key, step);
        key = other > key ? other : key;
    }
    out[lane] = key >> 32; out[lane + 32] = (unsigned)key;""",
    "by a product": """
    unsigned key = 0;
    for (int k = lane; k < n; k += 32) key = max(key, (unsigned)in[k] * 50021u + k);
    key = __reduce_max_sync(~0u, key);
    out[lane] = key / 50021u; out[lane + 32] = key % 50021u;""",
    "a product of bytes": """
    unsigned key = 0;
    for (int k = lane; k < n; k += 32) key = max(key, bytes[k] * 1000u + bytes[k + 1]);
    key = __reduce_max_sync(~0u, key);
    out[lane] = key / 1000u; out[lane + 32] = key % 1000u;""",
    "rows of a product": """
    int sum = 0;
    for (int k = lane; k < n; k += 32) sum += in[in[k] * 1000 + k] + k % 1000;
    out[lane] = sum;""",
    "bytes": """
    unsigned key = 0;
    for (int k = lane; k < n; k += 32) key = max(key, (unsigned)bytes[k] << 8 | bytes[k + 1]);
    key = __reduce_max_sync(~0u, key);
    out[lane] = key >> 8; out[lane + 32] = key & 0xff;""",
    "what is never taken apart": """
    for (int k = lane; k < n; k += 32) out[k] = in[k] << 16 | (in[k + 1] & 0xffff);""",
    "a word that is turned": """
    unsigned h = in[lane];
    for (int k = lane; k < n; k += 32) h = (h << 13 | h >> 19) ^ in[k];
    out[lane] = h & 0x1fff;""",
    "bits of a column": """
    Wide plus = ~0ull, minus = 0;
    for (int k = 0; k < n; k++) {
        const unsigned low = __ballot_sync(~0u, in[lane] == in[k]) & in[k + 1];
        const unsigned high = __ballot_sync(~0u, in[lane + 32] == in[k]) & in[k + 2];
        const Wide equal = (Wide)high << 32 | low;
        const Wide zero = (((equal & plus) + plus) ^ plus) | equal | minus;
        const Wide up = (minus | ~(zero | plus)) << 1 | 1, down = (zero & plus) << 1;
        plus = down | ~(zero | up);
        minus = zero & up;
    }
    out[lane] = (int)(plus >> 32); out[lane + 32] = (int)minus;""",
    "places": """
    int sum = 0;
    for (int k = (in[0] << 7) + lane; k < n; k += gridDim.x << 7) sum += in[k];
    out[lane] = sum;""",
}  # fmt: skip
TOLD = {
    "one key": 12,
    "one shuffle": 16,
    "two sums": 24,
    "a number for its last bits": 16,
    "a key in shared memory": 10,
}


@pytest.fixture(scope="module")
def compiled() -> dict[str, dict[str, Packed]]:
    made = ptx_of_each({name: f"{HEAD}{body}\n}}\n" for name, body in BODIES.items()}, "largest")
    return {name: packed_in(ptx) for name, ptx in made.items()}


@pytest.mark.parametrize("name", BODIES)
def test_words_of_parts_that_may_not_fit_are_told(compiled: dict[str, dict[str, Packed]], name: str) -> None:
    said = packs_more(compiled["apart"], compiled[name])
    if name == "by a product":
        assert "one times 50021 and the other" in said
    else:
        assert (f"{TOLD[name]} bits for the lower one" in said) if name in TOLD else said == ""
    # what the kernel does itself is its own
    assert packs_more(compiled[name], compiled[name]) == ""
