# SPDX-License-Identifier: Apache-2.0
"""Products of half, bfloat16 and bytes on tensor cores in stages: copies land on the host when they are waited for."""

from __future__ import annotations

import pytest
from tests.host_cuda import same_results
from tests.tools.idioms.test_matrix_product import SIZES
from tests.tools.rewrite.on_host import holds, program, rewritten
from tests.tools.rewrite.test_operand_tiles import MNK
from tests.tools.rewrite.test_operand_tiles import PROGRAMS as PRODUCTS
from tests.tools.rewrite.test_tensor_tile import PROGRAMS

SLUG = "tensor-product"
MORE = {
    name: PRODUCTS[name]
    for name in (
        "half, both operands along the loop, bias and relu",
        "attention scores in bfloat16, causal",
        "some outputs early",
    )
}
MORE |= {
    "a block a row of heads, threads along a head": (
        """
constexpr int HEAD = 48;
__global__ void attend(const half* p, const half* v, half* out, int queries, int keys) {
  int d = threadIdx.x;
  int q = blockIdx.x * blockDim.y + threadIdx.y;
  int head = blockIdx.y;
  if (q >= queries) return;
  float acc = 0.0f;
  for (int k = 0; k < keys; ++k) {
    acc += __half2float(p[(head * queries + q) * keys + k]) * __half2float(v[(head * keys + k) * HEAD + d]);
  }
  out[(head * queries + q) * HEAD + d] = __float2half(acc);
}
""",
        MNK + "  (void)n; Device<half> p(2 * m * k), v(2 * k * HEAD, 2), o(2 * m * HEAD, 3);\n"
        "  dim3 block(HEAD, 4), grid((m + 3) / 4, 2); attend<<<grid, block>>>(p, v, o, m, k); o.show();",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS | MORE)
@pytest.mark.sampled(2)
def test_a_product_is_multiplied_in_stages(name: str) -> None:
    after = holds(SLUG, program(*(PROGRAMS | MORE)[name]), *SIZES, relative=2e-2, absolute=2e-2)
    assert "__pipeline_wait_prior(" in after
    assert rewritten(SLUG, after)[0].refused


@pytest.mark.thorough
def test_three_stages_are_as_right_as_two() -> None:
    code, main = MORE["half, both operands along the loop, bias and relu"]
    after = holds(SLUG, program(code, main), (33, 20, 7), relative=1e-2, absolute=1e-2)
    three = after.replace("kTensorStages = 2", "kTensorStages = 3").replace(
        "kTensorDepth = 32", "kTensorDepth = 16"
    )
    assert three != after
    same_results(program(code, main), three, "65", "33", "100", relative=1e-2, absolute=1e-2)


@pytest.mark.parametrize("name", ["plain", "a kernel that transposes, rows on x"])
def test_floats_are_not_rounded_for_tensor_cores(name: str) -> None:
    assert "no half and no bfloat16" in rewritten(SLUG, program(*PRODUCTS[name]))[0].refused
