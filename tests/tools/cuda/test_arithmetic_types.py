# SPDX-License-Identifier: Apache-2.0
"""The arithmetic type of an expression, as far as its text fixes it."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import model_of
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.cuda.values.pointers import PointerReader
from warplens_tools.text import SourceText

CODE = """struct Point {{ float w; int id; float4 v; float* q; }};
struct Outer {{ Point p; double d[4]; }};
using Dot = Point;
__global__ void k(const float4* in, Point par, Point* pp, const Outer s, const Point& rp, Outer* arr, Dot dot, int n) {{
  float4 p = in[threadIdx.x];
  const auto q = in[0];
  Point local = pp[0];
  auto al = pp[1];
  float first = 1, second = 2;
  result = ({expression});
}}
"""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("p.w", "float"), ("q.w", "float"), ("in[2].w", "float"), ("in->w", "float"), ("(*in).w", "float"),
        ("par.w", "float"), ("pp->w", "float"), ("pp[3].id", "int"), ("rp.w", "float"), ("dot.id", "int"),
        ("local.w", "float"), ("al.w", "float"), ("s.p.w", "float"), ("arr[1].p.v.x", "float"), ("par.v", "float"),
        ("arr[1].d[2]", "double"), ("second * n", "float"), ("threadIdx.x", "int"),
        ("par.q", None), ("s.d", None), ("s.nothing", None), ("unknown.w", None), ("pp", None), ("in", None),
    ],
)  # fmt: skip
def test_the_type_is_what_the_text_fixes(expression: str, expected: str | None) -> None:
    tree = parse_tree(SourceText(CODE.format(expression=expression)))
    kernel = model_of(tree, "k.cu").kernels[0]
    expanded = kernel_tree(tree, kernel)
    assert expanded is not None
    forms = FormReader(expanded)
    assigned = expanded.tree.captures("(assignment_expression right: (_) @right)", expanded.function.body)
    assert TypeReader(forms, PointerReader(kernel, forms)).type(assigned["right"][-1]) == expected
