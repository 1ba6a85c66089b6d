# SPDX-License-Identifier: Apache-2.0
"""For whom operations hold, what is left for the last block, and lanes in step, by what nvcc makes of both."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.compiled import nvcc_made

from warplens_tools.toolchain.ptx_in_step import in_step, in_step_in
from warplens_tools.toolchain.ptx_scopes import asks_no_more, narrower, scopes_in
from warplens_tools.toolchain.ptx_tickets import out_of_turn, tickets_in

pytestmark = pytest.mark.compiler

HEAD = "__global__ void k(const int* x, float* part, unsigned* drawn, float* out, int* low, int n)"
#: Each block leaves a part; the last one adds them up.
LAST = """__shared__ bool last; if (threadIdx.x == 0) { LEAVE } __syncthreads(); if (!last) return; BEFORE
    float sum = 0; for (int b = threadIdx.x; b < gridDim.x; b += blockDim.x) sum += ((volatile float*)part)[b];
    out[threadIdx.x] = sum; if (threadIdx.x == 0) *drawn = 0;"""
WRITE, FENCE, DRAW = (
    "part[blockIdx.x] = x[blockIdx.x];",
    "__threadfence();",
    "last = atomicAdd(drawn, 1u) == gridDim.x - 1;",
)
TREE = """__shared__ float held[256]; held[threadIdx.x] = x[threadIdx.x]; __syncthreads();
    for (int half = 128; half > LEAST; half /= 2) {
        if (threadIdx.x < half) held[threadIdx.x] += held[threadIdx.x + half]; __syncthreads(); }"""
STEP = "v[threadIdx.x] += v[threadIdx.x + %d];"
WAITS = "t = v[threadIdx.x + %d]; __syncwarp(); v[threadIdx.x] += t; __syncwarp();"
HALVES = (32, 16, 8, 4, 2, 1)
WARP = f"""{TREE.replace("LEAST", "32")} if (threadIdx.x < 32) {{ volatile float* v = held;
    float t = 0; STEPS }} """
END = "if (threadIdx.x == 0) out[blockIdx.x] = held[0];"


def _last(leave: str, before: str = FENCE) -> str:
    return LAST.replace("LEAVE", leave).replace("BEFORE", before)


BODIES = {
    "least": "if (threadIdx.x < n) atomicMin(low + x[threadIdx.x], x[threadIdx.x + n]);",
    "least of a block": "if (threadIdx.x < n) atomicMin_block(low + x[threadIdx.x], x[threadIdx.x + n]);",
    "least of the system": "if (threadIdx.x < n) atomicMin_system(low + x[threadIdx.x], x[threadIdx.x + n]);",
    "least in shared memory": """__shared__ int own[32]; if (threadIdx.x < 32) own[threadIdx.x] = n; __syncthreads();
        atomicMin_block(own + x[threadIdx.x] % 32, x[threadIdx.x + n]); __syncthreads();
        if (threadIdx.x < 32) atomicMin(low + threadIdx.x, own[threadIdx.x]);""",
    "last": _last(WRITE + FENCE + DRAW),
    "last with one fence": _last(WRITE + FENCE + DRAW, ""),
    "last without a fence": _last(WRITE + DRAW),
    "last with a block's": _last(WRITE + "__threadfence_block();" + DRAW),
    "last drawn first": _last(DRAW + WRITE + FENCE),
    "last with a fence for all": _last(f"{WRITE} }} {FENCE} __syncthreads(); if (threadIdx.x == 0) {{ {DRAW}"),
    "tree": TREE.replace("LEAST", "0") + END,
    "tree in step": WARP.replace("STEPS", "".join(STEP % half for half in HALVES)) + END,
    "tree that waits": WARP.replace("STEPS", "".join(WAITS % half for half in HALVES)) + END,
    "tree by shuffles": TREE.replace("LEAST", "16") + """float t = held[threadIdx.x % 32];
        for (int step = 16; step; step /= 2) t += __shfl_down_sync(~0u, t, step);
        if (threadIdx.x == 0) out[blockIdx.x] = t;""",
    "asks": "int k = 0; while (k < n && !*(const volatile int*)x) ++k; out[threadIdx.x] = k;",
    "asks seldom": "int k = 0; for (; k < n; ++k) if (k % 32 == 0 && __ldcv(x)) break; out[threadIdx.x] = k;",
    "asks once": "int k = 0; if (!*(const volatile int*)x) while (k < n && low[k]) ++k; out[threadIdx.x] = k;",
    "asks what it knows": "int k = 0; while (k < n && !*x) { low[k] = 0; ++k; } out[threadIdx.x] = k;",
}  # fmt: skip


@pytest.fixture(scope="module")
def ptx() -> dict[str, str]:
    """What nvcc makes of each body, as the kernel of a unit of its own: compiled as kernels of one."""
    names = {f"k{number}_": name for number, name in enumerate(BODIES)}
    text = "\n".join(f"{HEAD.replace(' k(', f' {k}(')} {{ {BODIES[name]} }}" for k, name in names.items())
    head, *entries = nvcc_made("k.ptx", text, "-ptx", "-arch=sm_90").read_text().split(".visible .entry ")
    found = {}
    for entry in entries:
        kernel = next(one for one in names if one in entry)
        found[names[kernel]] = f"{head}.visible .entry {entry}".replace(f"_Z{len(kernel)}{kernel}", "_Z1k")
    return found


def _said(was: str, now: str, made: Callable, told: Callable) -> str:  # type: ignore[type-arg]
    # what a kernel does itself is its own
    assert told(made(now), made(now)) == ""
    return str(told(made(was), made(now)))


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (
            "least",
            "least of a block",
            "behind parameter 5 hold within a block, the kernel's within the device",
        ),
        ("least of the system", "least", "hold within the device, the kernel's within the system"),
        ("least of a block", "least", ""),
        ("least", "least of the system", ""),
        # what a block holds is its own
        ("least", "least in shared memory", ""),
        ("last", "last with a block's", "a fence of the edit holds within a block"),
        ("last", "last with one fence", ""),
    ],
)
def test_what_holds_for_the_device_does_not_hold_for_a_block(
    ptx: dict[str, str], was: str, now: str, said: str
) -> None:
    found = _said(ptx[was], ptx[now], scopes_in, narrower)
    assert said in found and bool(said) == bool(found)


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("asks", "asks once", True),
        ("asks", "asks what it knows", True),
        ("asks", "asks seldom", False),
        ("asks seldom", "asks", False),
        # what is asked once may be asked at any time, and what a kernel writes itself is no one else's
        ("asks once", "asks what it knows", False),
        ("last", "last without a fence", False),
    ],
)
def test_what_others_may_change_is_asked_anew(ptx: dict[str, str], was: str, now: str, told: bool) -> None:
    assert ("asks anew, round after round" in _said(ptx[was], ptx[now], scopes_in, asks_no_more)) == told


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("last", "last without a fence", "no fence between what it writes behind parameter 2 and the number"),
        ("last", "last with a block's", "no fence between what it writes behind parameter 2 and the number"),
        ("last", "last with one fence", "no fence between the number that it draws and what it reads behind"),
        ("last", "last drawn first", "writes behind parameter 2 after it has drawn its number"),
        ("last", "last with a fence for all", ""),
        # who does so already may go on
        ("last without a fence", "last with one fence", "and what it reads"),
        ("last with one fence", "last", ""),
        ("least", "last drawn first", ""),
    ],
)
def test_what_is_left_is_there_before_the_number_is_drawn(
    ptx: dict[str, str], was: str, now: str, said: str
) -> None:
    found = _said(ptx[was], ptx[now], tickets_in, out_of_turn)
    assert said in found and bool(said) == bool(found)


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("tree", "tree in step", True),
        ("tree", "tree that waits", False),
        ("tree", "tree by shuffles", False),
        ("tree in step", "tree in step", False),
    ],
)
def test_lanes_do_not_run_in_step(ptx: dict[str, str], was: str, now: str, told: bool) -> None:
    assert ("no barrier between what lanes write" in _said(ptx[was], ptx[now], in_step_in, in_step)) == told
