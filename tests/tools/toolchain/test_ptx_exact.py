# SPDX-License-Identifier: Apache-2.0
"""What a kernel does for its last bits, and what blocks do in one place, seen in what nvcc makes of both."""

from __future__ import annotations

import pytest
from tests.compiled import nvcc_made, ptx_of_each

from warplens_tools.toolchain.ptx_between import between_in, unseen
from warplens_tools.toolchain.ptx_exact import exact_in, less_exact
from warplens_tools.toolchain.ptx_sums import sums_in

pytestmark = pytest.mark.compiler

#: One kernel of the same name each: out, in, places, a counter, how many.
BODIES = {
    "plain": "float s = 0; for (int i = 0; i < n; ++i) s += x[i]; out[threadIdx.x] = s;",
    "kahan": """float s = 0, c = 0;
        for (int i = 0; i < n; ++i) { float y = x[i] - c, t = s + y; c = (t - s) - y; s = t; }
        out[threadIdx.x] = s;""",
    "neumaier": """float s = 0, c = 0;
        for (int i = 0; i < n; ++i) {
            float w = x[i], t = s + w;
            c += fabsf(s) >= fabsf(w) ? (s - t) + w : (w - t) + s;
            s = t;
        }
        out[threadIdx.x] = s + c;""",
    "two-sum": """float s = 0, c = 0;
        for (int i = 0; i < n; ++i) {
            float w = x[i], t = s + w, z = t - s;
            c += (s - (t - z)) + (w - z);
            s = t;
        }
        out[threadIdx.x] = s + c;""",
    "sum the larger": """float s = 0, c = 0;
        for (int i = 0; i < n; ++i) { float w = x[i], t = s + w; c += (s - t) + w; s = t; }
        out[threadIdx.x] = s + c;""",
    "lanes plainly": """float s = 0, c = 0;
        for (int i = threadIdx.x; i < n; i += 32) {
            float w = x[i], t = s + w;
            c += fabsf(s) >= fabsf(w) ? (s - t) + w : (w - t) + s;
            s = t;
        }
        for (int k = 16; k > 0; k /= 2) { s += __shfl_xor_sync(~0u, s, k); c += __shfl_xor_sync(~0u, c, k); }
        out[threadIdx.x] = s + c;""",
    "lanes": """float s = 0, c = 0;
        for (int i = threadIdx.x; i < n; i += 32) {
            float w = x[i], t = s + w;
            c += fabsf(s) >= fabsf(w) ? (s - t) + w : (w - t) + s;
            s = t;
        }
        for (int k = 16; k > 0; k /= 2) {
            float w = __shfl_xor_sync(~0u, s, k), t = s + w;
            c += __shfl_xor_sync(~0u, c, k) + (fabsf(s) >= fabsf(w) ? (s - t) + w : (w - t) + s);
            s = t;
        }
        out[threadIdx.x] = s + c;""",
    "two at once": """float s = 0, c = 0;
        for (int i = 0; i < n; i += 2) {
            float w = x[i] + x[i + 1], t = s + w;
            c += fabsf(s) >= fabsf(w) ? (s - t) + w : (w - t) + s;
            s = t;
        }
        out[threadIdx.x] = s + c;""",
    # what is taken off, with the sum and the difference written as its negative
    "kahan of differences": """float s = 0, c = 0;
        for (int i = 0; i < n; ++i) { float y = x[i] + c, t = s - y; c = (s - t) - y; s = t; }
        out[threadIdx.x] = s;""",
    "kahan negated": """float s = 0, c = 0;
        for (int i = 0; i < n; ++i) {
            float y = x[i] + c, t = __fadd_rn(s, y);
            c = __fadd_rn(y, -__fadd_rn(t, -s));
            s = t;
        }
        out[threadIdx.x] = s;""",
    "kahan kept": """__shared__ float c[256];
        float s = 0;
        c[threadIdx.x] = 0;
        for (int i = 0; i < n; ++i) {
            float y = x[i] - c[threadIdx.x], t = s + y;
            c[threadIdx.x] = (t - s) - y;
            s = t;
        }
        out[threadIdx.x] = s;""",
    "less": "float s = 0; for (int i = 0; i < n; ++i) s -= x[i]; out[threadIdx.x] = s;",
    # two sums beside one another: no loss is worked out
    "two sums": """float a = 0, b = 0;
        for (int i = at[threadIdx.x]; i < at[threadIdx.x + 1]; ++i) {
            if (at[i] == threadIdx.x) continue;
            if (at[i] == n) a += x[i]; else b += x[i];
        }
        out[threadIdx.x] = b - a;""",
    "two signs": """float a = 0, b = 0;
        for (int i = at[threadIdx.x]; i < at[threadIdx.x + 1]; ++i)
            if (at[i] == n) a += x[i]; else b -= x[i];
        out[threadIdx.x] = a + b;""",
    "two sums by a warp": """float a = 0, b = 0;
        for (int i = at[threadIdx.y] + threadIdx.x; i < at[threadIdx.y + 1]; i += 32) {
            if (at[i] == threadIdx.y) continue;
            if (at[i] == n) a += x[i]; else b += x[i];
        }
        for (int k = 16; k > 0; k /= 2) { a += __shfl_xor_sync(~0u, a, k); b += __shfl_xor_sync(~0u, b, k); }
        out[threadIdx.y] = b - a;""",
    "double": "double s = 0; for (int i = 0; i < n; ++i) s += x[i]; out[threadIdx.x] = s;",
    "power": "float s = 0; for (int i = 0; i < n; ++i) s += powf(x[i], 1.7f); out[threadIdx.x] = s;",
    "square": "float s = 0; for (int i = 0; i < n; ++i) s += x[i] * x[i]; out[threadIdx.x] = s;",
    "root": "float s = 0; for (int i = 0; i < n; ++i) s += cbrtf(x[i]); out[threadIdx.x] = s;",
    "quick": "float s = 0; for (int i = 0; i < n; ++i) s += __powf(x[i], 1.7f); out[threadIdx.x] = s;",
    "added": "atomicAdd(out + at[threadIdx.x], x[threadIdx.x]);",
    "lost": "out[at[threadIdx.x]] += x[threadIdx.x];",
    "counted": "atomicAdd(out + int(rintf(x[threadIdx.x] * 4)), 1.0f);",
    "miscounted": "out[int(rintf(x[threadIdx.x] * 4))] += 1.0f;",
    "shared": """__shared__ int c[256]; atomicAdd(c + at[threadIdx.x], 1); __syncthreads();
        out[threadIdx.x] = c[threadIdx.x];""",
    "shared lost": """__shared__ int c[256]; ++c[at[threadIdx.x]]; __syncthreads();
        out[threadIdx.x] = c[threadIdx.x];""",
    "packed": """__shared__ unsigned c[128];
        const int b = at[threadIdx.x];
        atomicAdd(c + (b >> 1), b & 1 ? 65536u : 1u); __syncthreads();
        out[threadIdx.x] = c[threadIdx.x >> 1] >> (threadIdx.x & 1) * 16 & 0xffffu;""",
    "owned": "if (!threadIdx.x || at[threadIdx.x - 1] != at[threadIdx.x]) out[at[threadIdx.x]] = x[threadIdx.x];",
    "fence": """out[blockIdx.x] = x[blockIdx.x]; __threadfence();
        if (atomicAdd(count, 1u) == gridDim.x - 1) { float s = 0; volatile float* o = out;
            for (int i = 0; i < n; ++i) s += o[i]; out[n] = s; }""",
    "bare": """out[blockIdx.x] = x[blockIdx.x];
        if (atomicAdd(count, 1u) == gridDim.x - 1) { float s = 0; volatile float* o = out;
            for (int i = 0; i < n; ++i) s += o[i]; out[n] = s; }""",
    "cached": """out[blockIdx.x] = x[blockIdx.x]; __threadfence();
        if (atomicAdd(count, 1u) == gridDim.x - 1) { float s = 0;
            for (int i = 0; i < n; ++i) s += __ldg(out + i); out[n] = s; }""",
    "by one": "atomicAdd(count, 1u); out[threadIdx.x] = x[threadIdx.x];",
}


@pytest.fixture(scope="module")
def ptx() -> dict[str, str]:
    """What nvcc makes of each body."""
    head = "__global__ void k(float* out, const float* x, const int* at, unsigned* count, int n) {"
    return ptx_of_each({name: f"{head} {body} }}\n" for name, body in BODIES.items()}, "k", "-lineinfo")


def less(ptx: dict[str, str], was: str, now: str) -> str:
    return less_exact(exact_in(ptx[was]), exact_in(ptx[now]), sums_in(ptx[now]))


@pytest.mark.parametrize("was", ["kahan", "neumaier"])
def test_a_sum_that_carries_its_losses_is_no_plain_one(ptx: dict[str, str], was: str) -> None:
    assert "carries along" in less(ptx, was, "plain")
    # what carries as much, or in double
    for now in (was, "neumaier", "double"):
        assert less(ptx, was, now) == ""
    assert less(ptx, "plain", was) == ""


@pytest.mark.parametrize("was", ["kahan of differences", "kahan negated", "kahan kept"])
def test_losses_are_carried_along_in_any_spelling(ptx: dict[str, str], was: str) -> None:
    for now in ("plain", "less", "two sums"):
        assert "carries along" in less(ptx, was, now)
    assert less(ptx, was, "kahan") == "" == less(ptx, "kahan", was)


@pytest.mark.parametrize("was", ["two sums", "two signs", "two sums by a warp"])
def test_two_sums_and_their_difference_carry_nothing_along(ptx: dict[str, str], was: str) -> None:
    for now in ("two sums by a warp", "two sums", "plain"):
        assert less(ptx, was, now) == ""
    assert "carries along" in less(ptx, "kahan", was)


@pytest.mark.parametrize("now", ["kahan", "sum the larger"])
@pytest.mark.parametrize("was", ["neumaier", "two-sum"])
def test_losses_of_whichever_is_the_larger_are_more_than_the_terms_alone(
    ptx: dict[str, str], was: str, now: str
) -> None:
    before, after = exact_in(ptx[was]), exact_in(ptx[now])
    assert "the larger" in less_exact(before, after, sums_in(ptx[now]))
    assert less_exact(after, before, sums_in(ptx[was])) == ""


@pytest.mark.parametrize("was", ["neumaier", "two-sum"])
@pytest.mark.parametrize("now", ["neumaier", "two-sum", "lanes", "double"])
def test_losses_of_either_by_any_way_are_alike(ptx: dict[str, str], was: str, now: str) -> None:
    assert less_exact(exact_in(ptx[was]), exact_in(ptx[now]), sums_in(ptx[now])) == ""


def test_what_is_added_beside_such_a_sum_is_looked_at_too(ptx: dict[str, str]) -> None:
    for now in ("lanes plainly", "two at once"):
        assert "without what is lost there" in less(ptx, "neumaier", now)
        assert less(ptx, now, now) == ""
    assert less(ptx, "neumaier", "lanes") == "" == less(ptx, "plain", "lanes plainly")


def test_what_the_math_library_carries_is_no_sum(ptx: dict[str, str]) -> None:
    assert less(ptx, "power", "square") == "" == less(ptx, "power", "root")


def test_functions_that_one_instruction_approximates(ptx: dict[str, str]) -> None:
    assert "logarithms" in less(ptx, "power", "quick")
    assert less(ptx, "quick", "quick") == "" == less(ptx, "quick", "power")


def chance(ptx: dict[str, str], was: str, now: str) -> str:
    return unseen(between_in(ptx[was]), between_in(ptx[now]))


def test_places_that_loaded_numbers_lead_to_are_added_to_by_atomic_operations(ptx: dict[str, str]) -> None:
    assert "atomic" in chance(ptx, "added", "lost")
    assert "atomic" in chance(ptx, "counted", "miscounted")
    assert "shared memory" in chance(ptx, "shared", "shared lost")
    assert "one word" in chance(ptx, "shared", "packed")
    assert chance(ptx, "added", "owned") == "" == chance(ptx, "lost", "lost")


def test_what_other_blocks_wrote_is_seen_behind_a_fence(ptx: dict[str, str]) -> None:
    assert "fence" in chance(ptx, "fence", "bare")
    assert "read-only cache" in chance(ptx, "fence", "cached")
    # nothing is read of what others write
    assert chance(ptx, "fence", "by one") == "" == chance(ptx, "fence", "fence")


def test_a_sum_that_is_added_to_behind_its_loop_is_not_taken_apart() -> None:
    text = """
    __global__ void rows(const long long* first, const float* x, const float* bias, float* out) {
        float sum = 0, lost = 0;
        for (long long j = first[threadIdx.x]; j < first[threadIdx.x + 1]; ++j) {
            const float term = x[j] * x[j + 1] - lost, next = sum + term;
            lost = (next - sum) - term;
            sum = next;
        }
        if (bias) sum += bias[threadIdx.x];
        out[threadIdx.x] = sum;
    }
    """
    found = exact_in(nvcc_made("k.ptx", text, "-arch=sm_90", "-ptx").read_text())
    assert [(set(one.compensated), set(one.either)) for one in found.values()] == [({"f32"}, set())]
