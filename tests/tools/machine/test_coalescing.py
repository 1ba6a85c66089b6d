# SPDX-License-Identifier: Apache-2.0
"""Sectors per request, who uses the rest of them, and where lanes meet."""

from __future__ import annotations

import pytest

from warplens_tools.kernel import KernelView
from warplens_tools.machine.coalescing import WarpAccess
from warplens_tools.micro.common.sectors import cause_of
from warplens_tools.micro.narrow_block import NarrowBlock
from warplens_tools.testing import views

HEAD = """
struct R { float x, y, z, w; double d; int k, l; };
__constant__ float table[64];
__global__ void k(const float *a, float *o, const R *r, const unsigned char *b, const double *d, int *c, int n, int w,
                  int s)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, y = threadIdx.y;
"""
TAIL = "\n}}\nvoid f() {{ k<<<dim3(64, 64), {block}>>>(a, o, r, b, d, c, n, {width}, s); }}\n"


def view_of(body: str, block: str = "256", width: str = "w") -> KernelView:
    (view,) = views(HEAD + body + TAIL.format(block=block, width=width))
    return view


def first(body: str, block: str = "256", width: str = "w") -> WarpAccess:
    return next(w for w in view_of(body, block, width).warp_accesses if not w.access.writes)


def test_a_templates_integers_are_known_as_its_only_launch_has_them() -> None:
    text = "template <int kItems> __global__ void k(float *o) { o[threadIdx.x * kItems] = 0.0f; }\n"
    (view,) = views(text + "void f(float *o) { k<2><<<64, 256>>>(o); }\n")
    assert view.template_numbers == {"kItems": 2}
    assert [w.sectors for w in view.warp_accesses] == [8]


@pytest.mark.parametrize(
    ("body", "sectors", "least", "lines", "rest"),
    [
        ("o[i] = a[i];", 4, 4, 1, "nobody"),
        ("o[i] = d[i];", 8, 8, 2, "nobody"),
        ("o[i] = b[i];", 1, 1, 1, "nobody"),
        ("o[i] = a[0];", 1, 1, 1, "nobody"),
        ("o[i] = a[i + 1];", 5, 4, 2, "block"),
        ("o[i] = a[2 * i];", 8, 4, 2, "nobody"),
        ("o[i] = a[i * 64];", 32, 4, 32, "nobody"),
        ("o[i] = a[i * (w + 1) + blockIdx.y];", 32, 4, 32, "grid"),
        ("o[i] = r[i].y;", 32, 4, 8, "nobody"),
        ("const R &q = r[i]; o[i] = q.x + q.w;", 32, 8, 8, "nobody"),
        ("R q = r[i]; o[i] = q.d; c[i] = q.k;", 32, 12, 8, "nobody"),
        ("for (int j = 0; j < n; ++j) o[i] += a[i * w + j];", 32, 4, 32, "loop"),
        ("o[i] = a[i * w + blockIdx.y];", 32, 4, 32, "grid"),
    ],
)
def test_a_request(body: str, sectors: int, least: int, lines: int, rest: str) -> None:
    found = first(body)
    assert (found.sectors, found.ideal_sectors, found.lines, found.reused_by) == (sectors, least, lines, rest)


@pytest.mark.parametrize(
    "body",
    [
        "o[i] = a[i * w];",
        "o[i] = a[i * w + n];",
        "o[i] = a[i * w + y * n];",
        "for (int j = 0; j < n; ++j) o[i] += a[i * w + j * n];",
        "o[i] = a[i * (w + 1)];",
        "for (int j = 0; j < 3; ++j) o[i] += a[i * w + j];",
        "o[i] = a[i % n * w];",
    ],
)
def test_a_stride_that_may_be_1_is_not_taken_for_a_large_one(body: str) -> None:
    assert [w for w in view_of(body).warp_accesses if w.access.name == "a" and w.overfetch >= 2.0] == []


@pytest.mark.parametrize(
    "body",
    [
        "for (int j = 0; j < n; ++j) o[i] += a[i * w + j];",
        "for (int j = 0; j < 8; ++j) o[i] += a[i * w + j];",
        "o[i] = a[i * w + blockIdx.y];",
        "o[i] = a[i * w + blockIdx.y * blockDim.y + y];",
        "o[i] = a[i % n * w + i / n];",
    ],
)
def test_lanes_with_something_between_them_are_rows_apart(body: str) -> None:
    assert first(body).sectors == 32


def test_the_rows_of_a_tile_share_their_sectors() -> None:
    found = first("o[y * w + i] = a[i * w + y];", block="dim3(32, 8)")
    assert (found.sectors, found.reused_by, found.dram_sectors) == (32, "block", 4.0)


def test_a_pitch_that_the_launch_fixes_counts() -> None:
    assert not first("for (int y = 1; y < n; ++y) o[y * w + i] = a[y * w + i + 3];", width="1001").aligned


@pytest.mark.parametrize(
    ("body", "sectors"),
    [
        ("if (threadIdx.x == 0) o[i] = a[i * 64];", 1),
        ("if (threadIdx.x % 8 == 0) o[i] = a[i * 64];", 4),
        ("if (threadIdx.x < 4) o[i] = a[i * 64];", 4),
        ("if (threadIdx.x >= 252) o[i] = a[i * 64];", 4),
        ("int x = i % n; if (x == 0) o[i] = a[i * 64];", 1),
        ("if (i / n == 0) o[i] = a[i * 64];", 1),
        ("if (i / n == n - 1) o[i] = a[i * 64];", 1),
        ("if (i / 1000000 == 0) o[i] = a[i * 64];", 32),
        ("if (blockIdx.y == 0) o[i] = a[i * 64];", 32),
        ("int last = c[0]; if (i == last) o[i] = a[i * 64];", 1),
        ("if (i < n) o[i] = a[i * 64];", 32),
        ("if (i >= n) return; if (i > 0) o[i] = a[i * 64];", 32),
        ("if (i >= w && i < n) o[i] = a[i * 64];", 32),
        ("if (i % 2 == n) o[i] = a[i * 64];", 32),
        ("for (int j = 0; j < n; ++j) if (i > j) o[i] += a[i * 64];", 32),
    ],
)
def test_only_lanes_that_come_touch_sectors(body: str, sectors: int) -> None:
    assert next(w for w in view_of(body).warp_accesses if w.access.name == "a").sectors == sectors


@pytest.mark.parametrize("block", ["dim3(8, 8)", "dim3(4, 16)"])
def test_rows_of_a_narrow_block_are_side_by_side_and_told_as_narrow(block: str) -> None:
    body = "o[y * w + i] = a[(blockIdx.y * blockDim.y + y) * w + blockIdx.x * blockDim.x + threadIdx.x + 3];"
    assert cause_of(first(body, block=block, width="1000")) is None
    (found,) = NarrowBlock(view_of(body, block=block, width="1000")).check()
    assert "of a" in found.message


@pytest.mark.parametrize(
    "body", ["o[i] = a[c[i]];", "o[i] = a[(int)a[i]];", "o[i] = unknown[i];", "o[i] = a[i % n ? 0 : i];"]
)
def test_what_is_not_known_is_left_out(body: str) -> None:
    assert all(
        w.access.indices in (("i",), ("c[i]",)) and w.overfetch == 1 for w in view_of(body).warp_accesses
    )


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("o[i] = r[i].y;", "field"),
        ("o[i] = a[4 * i + 3];", "field"),
        ("float s = a[4 * i]; for (int j = 1; j < 4; ++j) s += a[4 * i + j]; o[i] = s;", None),
        ("o[i] = a[3 * i] + a[3 * i + 1] + a[3 * i + 2];", None),
        ("for (int j = i * 64; j < i * 64 + 64; ++j) o[i] += a[j];", "chunk"),
        ("for (int j = 0; j < n; ++j) o[i] += a[i * w + j];", "read"),
        ("for (int j = 0; j < 4; ++j) o[i] += a[i * 4 + j];", None),
        ("o[i] = a[i * 64];", "read"),
        ("int q = i / n; o[i] = a[(i - q * n) * w + q];", "read"),
        ("o[i] = a[(i + 1) * (i + 2) / 2 - 1];", None),
        ("o[i] = a[i];", None),
    ],
)
def test_causes(body: str, cause: str | None) -> None:
    assert cause_of(first(body)) == cause


@pytest.mark.parametrize(
    ("body", "lanes", "places"),
    [
        ("atomicAdd(c, 1);", 32.0, 1),
        ("atomicAdd(&c[b[i]], 1);", 1.0, 256),
        ("atomicAdd(&c[b[i] & 7], 1);", 4.0, 8),
        ("atomicAdd(&c[blockIdx.x], 1);", 32.0, None),
        ("int v = c[i] % 4; atomicAdd(c + v, 1);", 8.0, 4),
    ],
)
def test_lanes_that_meet(body: str, lanes: float, places: int | None) -> None:
    (found,) = view_of(body).contention.atomics.in_global
    assert (found.lanes, found.places) == (lanes, places)


@pytest.mark.parametrize(
    "body",
    [
        "if (threadIdx.x == 0) atomicAdd(c, 1);",
        "if (!(threadIdx.x % 32)) atomicAdd(c, 1);",
        "int lane = threadIdx.x & 31; if (lane == 0 && i < n) atomicAdd(c, 1);",
        "atomicAdd(&c[i], 1);",
        "atomicAdd(&c[c[i]], 1);",
    ],
)
def test_lanes_that_do_not_meet(body: str) -> None:
    assert view_of(body).contention.atomics.in_global == ()


@pytest.mark.parametrize(
    ("body", "words"),
    [("o[i] = table[b[i]];", 25), ("o[i] = table[threadIdx.x & 7];", 8), ("o[i] = table[n];", None)],
)
def test_words_of_a_constant_table(body: str, words: int | None) -> None:
    found = view_of(body).contention.constants.divergent
    assert [round(c.words) for c in found] == ([] if words is None else [words])


@pytest.mark.parametrize(
    ("body", "sectors"),
    [
        # Both halves of a number, put together again: neighbouring lanes are side by side.
        ("o[i / w * w + i % w] = 1.0f;", [4]),
        ("int e = w - n + 1, s = i % (e * e); o[y * e * e + s / e * e + s % e] = 1.0f;", [4]),
        ("int e = w - n + 1; for (int u = 0; u < n; ++u) c[i] += a[(i / e + u) * w + i % e];", [4, 4]),
        # A share of one extent by another is some elements, whatever they are.
        ("int e = w / n; for (int j = 0; j < e; ++j) o[(i / n * n + i % n) * e * s + j] = 1.0f;", [32]),
        # The remainder times what it is divided by, or an extent: lanes are a row apart.
        ("o[i % w * w + i / w] = 1.0f;", [32]),
        ("o[i % 64 * 1000 + i / 64] = 1.0f;", [32]),
        # Lanes are a run-time step apart within the rows that a window goes through: it may well be one.
        (
            "for (int u = 0; u < 3; ++u) for (int v = 0; v < 3; ++v) c[i] = a[(i / w + u) * n + i % w * s + v];",
            [4],
        ),
    ],
)
def test_quotients_and_remainders_of_a_flat_number(body: str, sectors: list[int]) -> None:
    assert [found.sectors for found in view_of(body).warp_accesses] == sectors


def test_threads_per_element() -> None:
    product = "for (int j = 0; j < n; ++j) o[y * w + i] += a[y * w + j] * d[j * w + i];"
    found = {
        r.access.name: r.times for r in view_of(product, block="dim3(32, 8)", width="4096").reuse.rereads
    }
    assert (found["a"], found["d"]) == (32, 8)


def test_a_sweep_counts_where_its_extent_is_known_and_beyond_the_l2() -> None:
    loops = "for (int p = 0; p < 5; ++p) for (int j = i; j < {n}; j += gridDim.x * blockDim.x) o[j] += p;"
    (found, *_) = view_of(loops.format(n="1 << 26")).reuse.sweeps
    assert (found.bytes, found.trips) == (4 << 26, 5)
    assert view_of(loops.format(n="1 << 20")).reuse.sweeps == ()
    assert view_of(loops.format(n="n")).reuse.sweeps == ()
