# SPDX-License-Identifier: Apache-2.0
"""Signs, parts of sums, whole numbers as floats and polynomials of an edit's own, seen in what nvcc makes of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from tests.compiled import nvcc_made

from warplens_tools.toolchain.ptx_floats import through_floats, through_floats_in
from warplens_tools.toolchain.ptx_parts import narrower_parts, parts_in
from warplens_tools.toolchain.ptx_series import own_series, series_in
from warplens_tools.toolchain.ptx_short import short_in, shortened
from warplens_tools.toolchain.ptx_signs import signs_in, without_signs
from warplens_tools.toolchain.ptx_whole import less_whole, whole_in

pytestmark = pytest.mark.compiler

HEAD = "__global__ void k(const int* x, const float* y, long long* out, int* at, short* few, float* far, int n, int w)"
LOOP = "for (int i = threadIdx.x; i < n; i += 64)"
BODIES = {
    # signs
    "least": f"int low = 9; {LOOP} low = min(low, x[i]); at[threadIdx.x] = low;",
    "least without a sign": f"unsigned low = 9; {LOOP} low = min(low, (unsigned)x[i]); at[threadIdx.x] = low;",
    "least of a warp": f"""int low = 9; {LOOP} low = min(low, x[i]);
        at[threadIdx.x] = __reduce_min_sync(~0u, (unsigned)low);""",
    "least in bounds": f"""int low = 9; {LOOP} if ((unsigned)x[i] < (unsigned)n) low = min(low, x[i]);
        at[threadIdx.x] = low;""",
    # sums
    "sum": f"long long s = 0; {LOOP} s += x[i]; out[threadIdx.x] = s;",
    "sum without a sign": f"long long s = 0; {LOOP} s += (unsigned)x[i]; out[threadIdx.x] = s;",
    "sum in parts": f"int s = 0; {LOOP} s += x[i]; out[threadIdx.x] = (long long)s + 1;",
    "sum of rows": """long long s = 0;
        for (int r = threadIdx.x; r < n; r += 64) { int p = 0; for (int i = 0; i < w; ++i) p += x[r * w + i]; s += p; }
        out[threadIdx.x] = s;""",
    "sum of remainders": f"unsigned s = 0; {LOOP} s = (s * 31u + x[i]) % 97u; out[threadIdx.x] = s;",
    # whole numbers as floats
    "place": f"int p = -1; {LOOP} if (y[i] > far[0]) p = i; at[threadIdx.x] = p;",
    "place as a float": f"float p = -1; {LOOP} if (y[i] > far[0]) p = i; at[threadIdx.x] = (int)p;",
    "place by shared floats": f"""__shared__ float held[64]; float p = -1; {LOOP} if (y[i] > far[0]) p = i;
        held[threadIdx.x] = p; __syncthreads(); at[threadIdx.x] = (int)held[63 - threadIdx.x];""",
    "a byte as a float": "at[threadIdx.x] = (int)(float)(x[threadIdx.x] & 255);",
    "a float's whole part": "at[threadIdx.x] = (int)(y[threadIdx.x] * 4);",
    "place beside shared cosines": f"""__shared__ float held[64]; int p = -1; held[threadIdx.x] = cosf(y[threadIdx.x]);
        __syncthreads(); {LOOP} if (sinf(y[i] - held[i & 63]) > far[0]) p = i; at[threadIdx.x] = p;""",
    # quotients of floats
    "cell": "at[threadIdx.x] = (int)floorf((y[threadIdx.x] - far[0]) / far[1]);",
    "cell by a reciprocal": "float per = 1 / far[1]; at[threadIdx.x] = (int)floorf((y[threadIdx.x] - far[0]) * per);",
    "cell by one of doubles": "const double per = 1 / (double)far[1]; at[threadIdx.x] = (int)(y[threadIdx.x] * per);",
    "cell of a half": "at[threadIdx.x] = (int)floorf((y[threadIdx.x] - far[0]) * 0.5f);",
    # sums kept short
    "count": f"int c = 0; {LOOP} c += x[i]; at[threadIdx.x] = c;",
    "count kept short": f"""__shared__ unsigned short held[64]; int c = 0; {LOOP} c += x[i];
        held[threadIdx.x] = min(c, 65535); __syncthreads(); at[threadIdx.x] = held[63 - threadIdx.x];""",
    "count as a code": f"int c = 0; {LOOP} c += x[i]; few[threadIdx.x] = (short)(c & 7);",
    # series
    "sine": "far[threadIdx.x] = sinf(y[threadIdx.x]);",
    "sine and cosine": "float s, c; sincosf(y[threadIdx.x], &s, &c); far[threadIdx.x] = s * c;",
    "sine by steps": """float v = y[threadIdx.x], h = rintf(v * 0.31830989f), r = fmaf(h, -3.1415927f, v), z = r * r;
        float s = fmaf(z, 2.75e-6f, -1.984e-4f); s = fmaf(z, s, 8.3333e-3f); s = fmaf(z, s, -0.16666667f);
        far[threadIdx.x] = (int)h & 1 ? -fmaf(r * z, s, r) : fmaf(r * z, s, r);""",
    "exponential": "far[threadIdx.x] = expf(y[threadIdx.x]);",
    "exponential by terms": """float v = y[threadIdx.x], s = fmaf(v, 8.34e-3f, 4.167e-2f); s = fmaf(v, s, 0.16667f);
        s = fmaf(v, s, 0.5f); s = fmaf(v, s, 1.0f); far[threadIdx.x] = v > 4 ? expf(v) : fmaf(v, s, 1.0f);""",
    "a line": "float v = y[threadIdx.x]; far[threadIdx.x] = fmaf(fmaf(v, 0.25f, 1.5f), v, 0.75f);",
}  # fmt: skip


@pytest.fixture(scope="module")
def ptx() -> dict[str, str]:
    """What nvcc makes of each body, as the kernel of a unit of its own: compiled as kernels of one."""
    names = {f"k{number}_": name for number, name in enumerate(BODIES)}
    text = "\n".join(
        f"{HEAD.replace(' k(', f' {kernel}(')} {{ {BODIES[name]} }}" for kernel, name in names.items()
    )
    made = nvcc_made("k.ptx", text, "-ptx", "-arch=sm_90").read_text()
    head, *entries = made.split(".visible .entry ")
    found = {}
    for entry in entries:
        kernel = next(one for one in names if one in entry)
        found[names[kernel]] = f"{head}.visible .entry {entry}".replace(f"_Z{len(kernel)}{kernel}", "_Z1k")
    return found


def _said(ptx: Mapping[str, str], was: str, now: str, made: Callable, told: Callable) -> str:  # type: ignore[type-arg]
    said = told(made(ptx[was]), made(ptx[now]))
    # what a kernel does itself is its own
    assert told(made(ptx[now]), made(ptx[now])) == ""
    return str(said)


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("least", "least without a sign", True),
        ("least", "least of a warp", True),
        ("least", "least in bounds", False),
        ("sum", "sum without a sign", True),
        ("sum", "sum", False),
    ],
)
def test_integers_keep_their_sign(ptx: dict[str, str], was: str, now: str, told: bool) -> None:
    assert ("as if none were below zero" in _said(ptx, was, now, signs_in, without_signs)) == told


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("sum", "sum in parts", True),
        # round by round, and what is never larger than its modulus
        ("sum", "sum of rows", False),
        ("sum", "sum of remainders", False),
        ("count", "sum in parts", False),
    ],
)
def test_parts_of_sums_are_as_wide(ptx: dict[str, str], was: str, now: str, told: bool) -> None:
    assert ("adds up in 32 bits over a loop" in _said(ptx, was, now, parts_in, narrower_parts)) == told


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ("place", False),
        ("place as a float", True),
        ("place by shared floats", True),
        ("a byte as a float", False),
        ("a float's whole part", False),
        # angles are reduced by their whole parts
        ("place beside shared cosines", False),
    ],
)
def test_whole_numbers_do_not_go_through_floats(ptx: dict[str, str], now: str, told: bool) -> None:
    assert (
        "keeps whole numbers as floats" in _said(ptx, "place", now, through_floats_in, through_floats)
    ) == told


@pytest.mark.parametrize(
    ("now", "told"), [("count kept short", True), ("count as a code", False), ("count", False)]
)
def test_sums_are_kept_as_they_were_added_up(ptx: dict[str, str], now: str, told: bool) -> None:
    assert (
        "in 16 bits or fewer what a loop has added up" in _said(ptx, "count", now, short_in, shortened)
    ) == told


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("sine", "sine by steps", "reduces angles by itself"),
        ("exponential", "exponential by terms", "a polynomial of its own, of "),
        ("sine", "sine and cosine", ""),
        ("exponential", "a line", ""),
    ],
)
def test_functions_are_the_librarys_own(ptx: dict[str, str], was: str, now: str, said: str) -> None:
    old, new = series_in(ptx[was]), series_in(ptx[now])
    # cosines of the library have a polynomial that its sines have not
    found = own_series(old, new, calls_more=now == "sine and cosine")
    assert said in found and bool(said) == bool(found)
    assert own_series(new, new, calls_more=False) == "" == own_series(old, new, calls_more=True)


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("cell", "cell by a reciprocal", True),
        ("cell", "cell by one of doubles", True),
        ("cell", "cell", False),
        ("cell of a half", "cell by a reciprocal", False),
    ],
)
def test_quotients_that_become_whole_stay_quotients(
    ptx: dict[str, str], was: str, now: str, told: bool
) -> None:
    assert ("products with a reciprocal" in _said(ptx, was, now, whole_in, less_whole)) == told
