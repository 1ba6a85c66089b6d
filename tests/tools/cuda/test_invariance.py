# SPDX-License-Identifier: Apache-2.0
"""What a loop does not change."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.facts.invariance import is_invariant
from warplens_tools.cuda.parse import model_of
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.text import SourceText


@pytest.mark.parametrize(
    ("divisor", "expected"),
    [
        ("n", True),
        ("WIDTH", True),
        ("8", True),
        ("blockDim.x * n", True),
        ("shape.width + 1", True),
        ("k", False),
        ("step", False),
        ("inner", False),
        ("a[0]", False),
        ("*a", False),
        ("p->width", False),
        ("width(n)", False),
        ("taken", False),
        ("alias", False),
        ("other", False),
        ("reference", False),
        ("clock", False),
        ("tile", False),
        ("second", False),
        ("total", False),
        ("fixed", True),
    ],
)
def test_the_divisor_of_a_loop(divisor: str, expected: bool) -> None:
    tree = parse_tree(
        SourceText(f"""#define WIDTH 7
struct Shape {{ int width; }};
__device__ void take(int& value);
__device__ int total;
__constant__ int fixed;
__global__ void k(int* a, int n, Shape shape, Shape* p, const int& reference, volatile int clock) {{
  __shared__ int tile, second;
  int step = 1, taken = 1, &other = a[2];
  const int& alias = a[1];
  for (int k = 0; k < n; k += 2) {{
    int inner = k + 1;
    a[k] = inner / ({divisor});
    step *= 2;
    take(taken);
  }}
}}
""")
    )
    expanded = kernel_tree(tree, model_of(tree, "k.cu").kernels[0])
    assert expanded is not None
    body = expanded.function.body
    (loop,) = expanded.tree.captures("(for_statement) @loop", body)["loop"]
    (right,) = expanded.tree.captures('(binary_expression operator: "/" right: (_) @right)', body)["right"]
    assert is_invariant(expanded, right, loop) is expected
