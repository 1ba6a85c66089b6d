# SPDX-License-Identifier: Apache-2.0
"""Two values that are exchanged under a condition, ordered by minimum and maximum."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

MEDIAN = """
__global__ void median(const {type}* in, {type}* out, int width, int height) {{
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  {type} v[9];
  int n = 0;
  for (int i = -1; i <= 1; i++)
    for (int j = -1; j <= 1; j++) {{
      int r = min(max(y + i, 0), height - 1), c = min(max(x + j, 0), width - 1);
      v[n++] = in[r * width + c];
    }}
  for (int i = 0; i < 9; i++) {{
    for (int j = 0; j < 8 - i; j++) {{
      {exchange}
    }}
  }}
  out[y * width + x] = v[4] - v[8] + v[1];
}}
"""
EXCHANGES = (
    "if (v[j] > v[j + 1]) {{ {type} t = v[j]; v[j] = v[j + 1]; v[j + 1] = t; }}",
    "if (v[j+1] < v[j]) {{\n  const {type} kept = v[j + 1];\n  v[j + 1] = v[j];\n  v[j] = kept;\n}} n++;",
    "if (v[j] < v[j + 1]) {{ {type} t = v[j + 1]; v[j + 1] = v[j]; v[j] = t; }}",
)
MAIN = (
    "  int w = atoi(argv[1]), h = atoi(argv[2]); Device<{type}> a(w * h), b(w * h, 2);\n"
    "  median<<<dim3((w + 15) / 16, (h + 3) / 4), dim3(16, 4)>>>(a, b, w, h); b.show();"
)


@pytest.mark.compiler
@pytest.mark.parametrize("kind", ["float", "double", "int"])
@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.sampled(3)
def test_an_exchange_becomes_minimum_and_maximum(exchange: str, kind: str) -> None:
    code = MEDIAN.format(type=kind, exchange=exchange.format(type=kind))
    text = program(code, MAIN.format(type=kind))
    after = holds("exchange-by-minimum", text, (37, 9), (1, 1))
    assert "if (v[" not in after
    assert bool(rewritten("exchange-by-minimum", text)[0].caveat) == (kind != "int")
    assert rewritten("exchange-by-minimum", after)[0].refused


@pytest.mark.compiler
def test_a_sort_of_a_few_values_is_done_for_several_outputs() -> None:
    code = MEDIAN.format(type="float", exchange=EXCHANGES[0].format(type="float"))
    assert "kOutputs" in holds("march-outputs", program(code, MAIN.format(type="float")), (37, 9), (5, 2))


CHANGES = {
    "more than an exchange": ("v[j] = v[j + 1];", "v[j] = v[j + 1]; n++;"),
    "no exchange": ("v[j + 1] = t;", "v[j + 1] = v[j];"),
    "other values": ("if (v[j] > v[j + 1])", "if (v[j] > v[j + 2])"),
    "a call": ("if (v[j] > v[j + 1])", "if (fabsf(v[j]) > v[j + 1])"),
    "another branch": ("v[j + 1] = t; }", "v[j + 1] = t; } else n = 3;"),
    "memory that others see": ("float v[9];", "__shared__ float v[9];"),
    "a type of its own": ("float t", "int t"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_branches_are_left_alone(name: str) -> None:
    old, new = CHANGES[name]
    code = MEDIAN.format(type="float", exchange=EXCHANGES[0].format(type="float"))
    text = program(code.replace(old, new), MAIN.format(type="float"))
    assert old in code and rewritten("exchange-by-minimum", text)[0].refused
