# SPDX-License-Identifier: Apache-2.0
"""Which branches go by data that lanes load, and which only by where a lane stands."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.facts.data_branches import data_guards
from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.text import SourceText


@pytest.mark.parametrize(
    ("loop", "guarded"),
    [
        # the step of a loop without braces is no value of what follows it
        ("for (int j = 0; j < 32; j += 8) if (y + j < n) out[y + j] = in[y + j];", False),
        ("for (int j = 0; j < 32; j += 8) { if (y + j < n) out[y + j] = in[y + j]; }", False),
        ("for (int j = 0; j < 32; j += 8) if (in[y + j] > 0) out[y + j] = 1;", True),
        ("for (int j = 0; j < 32; j += 8) { float v = in[y + j]; if (v > 0) out[y + j] = v; }", True),
        ("if (in[y] > 0) out[y] = 1;", False),
    ],
)
def test_a_guard_goes_by_data_where_it_asks_for_what_a_lane_loads(loop: str, guarded: bool) -> None:
    code = f"""__global__ void k(float* out, const float* in, int n) {{
  int y = blockIdx.x * blockDim.x + threadIdx.x;
  {loop}
}}
"""
    text = SourceText(code)
    (kernel,) = parse(text, "k.cu").kernels
    assert bool(data_guards(parse_tree(text), kernel)) == guarded
