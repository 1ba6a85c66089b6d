# SPDX-License-Identifier: Apache-2.0
"""What is compared as it was loaded stays so, and NaN goes where it went, seen in what nvcc makes of both."""

from __future__ import annotations

import pytest
from tests.compiled import ptx_of_each

from warplens_tools.toolchain.ptx_compared import by_digests, compared_in, turned

pytestmark = pytest.mark.compiler

HEAD = """__global__ void k(const unsigned* a, const unsigned* b, const float* x, const float4*
        box, int* out, float* far,
                  int n, float reach)"""
MIXED = """auto mixed = [](unsigned h) { h ^= h >> 16; h *= 0x7feb352du; h ^= h >> 15; return h * 0x846ca68bu; };
    unsigned sum = 0; for (int i = 0; i < n; ++i) sum += mixed(a[i]) - mixed(b[i]); out[threadIdx.x] = sum == 0;"""
BODIES = {
    # whether numbers are equal
    "equal": "int all = 1; for (int i = 0; i < n; ++i) all &= a[i] == b[i]; out[threadIdx.x] = all;",
    "sums of mixes": MIXED,
    "products": """unsigned one = 1, other = 1; for (int i = 0; i < n; ++i) { one *= 2 * a[i] + 1;
        other *= 2 * b[i] + 1; }
        out[threadIdx.x] = one == other;""",
    "a polynomial": """unsigned long long one = 7, other = 7;
        for (int i = 0; i < n; ++i) one = one * 1099511628211 ^ a[i], other = other * 1099511628211 ^ b[i];
        out[threadIdx.x] = one == other;""",
    "sums of differences": """int sum = 0; for (int i = 0; i < n; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
        out[threadIdx.x] = sum == 0;""",
    "bits that differ": """unsigned bits = 0; for (int i = 0; i < n; ++i) bits |= a[i] ^ b[i];
        out[threadIdx.x] = bits == 0;""",
    "bytes of words": """int all = 1; for (int i = 0; i < n; ++i) for (int s = 0; s < 32; s += 8)
        all &= (a[i] >> s & 255) == (b[i] >> s & 255); out[threadIdx.x] = all;""",
    "one byte in all places": """unsigned fill = (a[0] & 255) * 0x01010101u, bits = 0;
        for (int i = 0; i < 8; ++i) { unsigned v = i < n ? a[i] : fill, w = i < n ? b[i] : fill;
        bits |= (v ^ fill) | (w ^ fill); }
        out[threadIdx.x] = (bits & 0xe0e0e0e0u) == 0;""",
    "through shared memory": """__shared__ unsigned held[64]; held[threadIdx.x] = a[threadIdx.x]; __syncthreads();
        int all = 1; for (int i = 0; i < n; ++i) all &= held[i] == b[i]; out[threadIdx.x] = all;""",
    "counted": """__shared__ int many[256]; many[threadIdx.x] = 0; __syncthreads();
        for (int i = 0; i < n; ++i) ++many[a[i] & 255], --many[b[i] & 255]; out[threadIdx.x] =
        many[threadIdx.x] == 0;""",
    # whether floats lie within a box
    "within": """float v = x[threadIdx.x]; float4 c = box[n];
        out[threadIdx.x] = !(v < c.x || v > c.z);""",
    "about the middle": """float v = x[threadIdx.x]; float4 c = box[n];
        out[threadIdx.x] = fabsf(v - 0.5f * (c.x + c.z)) <= 0.5f * (c.z - c.x);""",
    "as a share": """float v = x[threadIdx.x]; float4 c = box[n]; float t = (v - c.x) / (c.z - c.x);
        out[threadIdx.x] = t >= 0 && t <= 1;""",
    "by signs": """float v = x[threadIdx.x]; float4 c = box[n];
        out[threadIdx.x] = fmaxf(c.x - v, v - c.z) <= 0;""",
    # which way NaN goes
    "near": "float off = x[threadIdx.x] - x[n]; if (fabsf(off) <= reach) far[threadIdx.x] = off;",
    "near or nothing": """float off = x[threadIdx.x] - x[n]; out[threadIdx.x] = fabsf(off) <= reach ?
        __float_as_int(off) : 0;""",
    "not far": "float off = x[threadIdx.x] - x[n]; if (fabsf(off) > reach) return; far[threadIdx.x] = off;",
    "far is nothing": """float off = x[threadIdx.x] - x[n]; out[threadIdx.x] = fabsf(off) > reach ? 0 :
        __float_as_int(off);""",
    "not near": "float off = x[threadIdx.x] - x[n]; if (!(fabsf(off) <= reach)) return; far[threadIdx.x] = off;",
    "reach is more": "float off = x[threadIdx.x] - x[n]; if (reach >= fabsf(off)) far[threadIdx.x] = off;",
    "least": "float low = reach; for (int i = 0; i < n; ++i) if (x[i] < low) low = x[i]; far[threadIdx.x] = low;",
    "least by the library": """float low = reach; for (int i = 0; i < n; ++i) low = fminf(low, x[i]); far[threadIdx.x] =
        low;""",
    "least, turned": """float low = reach; for (int i = 0; i < n; ++i) { if (x[i] >= low) continue; low = x[i]; }
        far[threadIdx.x] = low;""",
}


@pytest.fixture(scope="module")
def ptx() -> dict[str, str]:
    return ptx_of_each({name: f"{HEAD} {{ {body} }}\n" for name, body in BODIES.items()}, "k")


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("equal", "sums of mixes", "whether numbers behind parameters 1 and 2 are equal"),
        ("equal", "products", "whether numbers behind parameters 1 and 2 are equal"),
        ("equal", "a polynomial", "whether numbers behind parameters 1 and 2 are equal"),
        ("equal", "sums of differences", "whether numbers behind parameters 1 and 2 are equal"),
        ("through shared memory", "sums of mixes", "whether numbers behind parameters 1 and 2 are equal"),
        ("equal", "equal", ""),
        ("equal", "bits that differ", ""),
        ("equal", "bytes of words", ""),
        ("equal", "one byte in all places", ""),
        ("equal", "through shared memory", ""),
        ("equal", "counted", ""),
        # a digest of the kernel's own
        ("products", "a polynomial", ""),
        ("within", "about the middle", "whether numbers behind parameters 3 and 4 are less or more"),
        ("within", "as a share", "whether numbers behind parameters 3 and 4 are less or more"),
        ("within", "by signs", ""),
        ("about the middle", "as a share", ""),
    ],
)
def test_what_is_compared_as_it_lies_stays_so(ptx: dict[str, str], was: str, now: str, told: str) -> None:
    said = by_digests(compared_in(ptx[was]), compared_in(ptx[now]))
    assert told in said
    assert bool(told) == bool(said)


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("near", "not far", True),
        ("near or nothing", "far is nothing", True),
        ("not near", "not far", True),
        ("not far", "near", True),
        ("least", "least, turned", True),
        ("near", "not near", False),
        ("near", "reach is more", False),
        ("least", "least by the library", False),
        ("not far", "far is nothing", False),
    ],
)
def test_nan_goes_where_it_went(ptx: dict[str, str], was: str, now: str, told: bool) -> None:
    assert bool(turned(compared_in(ptx[was]), compared_in(ptx[now]))) == told
