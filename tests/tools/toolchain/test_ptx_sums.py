# SPDX-License-Identifier: Apache-2.0
"""Sums in a lower precision than the kernel's, seen in what nvcc makes of them."""

from __future__ import annotations

import pytest
from tests.compiled import nvcc_made

from warplens_tools.toolchain.ptx_sums import coarser, sums_in

pytestmark = pytest.mark.compiler

BODIES = {
    "loop": "ACC sum = 0; for (int i = 0; i < n; ++i) sum += ACC(x[i]) * ACC(y[i]); out[threadIdx.x] = float(sum);",
    "blocked": """
        double all = 0;
        for (int i = 0; i < n; i += 16) {
            ACC part = 0;
            for (int k = 0; k < 16; ++k) part += ACC(x[i + k]) * ACC(y[i + k]);
            all += float(part);
        }
        out[threadIdx.x] = all;""",
    "called": "ACC sum = 0; for (int i = 0; i < n; ++i) sum = added(sum, ACC(x[i])); out[threadIdx.x] = float(sum);",
    # rounded once, a sum of two terms is what a higher precision rounds to
    "one": "out[threadIdx.x] = float(ACC(x[threadIdx.x]) + ACC(y[threadIdx.x]));",
}


@pytest.fixture(scope="module")
def sums() -> dict[str, dict[str, frozenset[str]]]:
    """What kernels add up in, by the type that they are written in."""
    found: dict[str, dict[str, frozenset[str]]] = {}
    for kind in ("double", "float", "__nv_bfloat16"):
        text = f"#include <cuda_bf16.h>\nusing ACC = {kind};\n"
        text += (
            "#ifdef CALLED\n__device__ __noinline__ ACC added(ACC a, ACC b) { return a + b + b; }\n#endif\n"
        )
        for name, body in BODIES.items():
            # a function that is called counts for every kernel of its unit
            guard = "#ifdef CALLED\n" if name == "called" else "#ifndef CALLED\n"
            text += guard + f"__global__ void {name}(const float* x, const float* y, double* out, int n) "
            text += f"{{{body}}}\n#endif\n"
        found[kind] = {}
        for options in ((), ("-DCALLED",)):
            found[kind] |= sums_in(nvcc_made("k.ptx", text, "-ptx", "-arch=sm_90", *options).read_text())
    return found


def only(found: dict[str, frozenset[str]], name: str) -> dict[str, frozenset[str]]:
    return {kernel: kinds for kernel, kinds in found.items() if kernel.startswith(name)}


@pytest.mark.parametrize("name", ["loop", "blocked", "called"])
@pytest.mark.parametrize(
    ("was", "now", "said"),
    [("double", "float", "float"), ("float", "__nv_bfloat16", "bfloat16"), ("double", "double", "")],
)
def test_a_sum_in_a_lower_precision_is_seen(
    sums: dict[str, dict[str, frozenset[str]]], name: str, was: str, now: str, said: str
) -> None:
    before, after = only(sums[was], name), only(sums[now], name)
    assert before and after
    why = coarser(before, after)
    assert (said in why) if said else not why
    assert not coarser(after, before)


def test_one_addition_is_no_sum(sums: dict[str, dict[str, frozenset[str]]]) -> None:
    assert not coarser(only(sums["float"], "one"), only(sums["__nv_bfloat16"], "one"))
    (kinds,) = only(sums["__nv_bfloat16"], "one").values()
    assert not kinds
