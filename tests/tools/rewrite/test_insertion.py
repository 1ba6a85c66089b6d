# SPDX-License-Identifier: Apache-2.0
"""A statement before a loop stands above what belongs to the loop, and nowhere that it would change the program."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import model_of
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.rewrite.common.insertion import insert_before
from warplens_tools.text import SourceText

KERNEL = """#define UNROLL _Pragma("unroll")
#define EACH(i) for (int i = 0; i < 8; ++i)
__global__ void k(float* a) {{
{body}
}}
"""
LOOP = "for (int i = 0; i < 8; ++i) a[i] = 0;"


def edited(body: str) -> str | None:
    text = SourceText(KERNEL.format(body=body))
    tree = parse_tree(text)
    expanded = kernel_tree(tree, model_of(tree, "k.cu").kernels[0])
    assert expanded is not None
    loop = expanded.tree.captures("(for_statement) @loop", expanded.function.body)["loop"][0]
    edit = insert_before(expanded.tree, loop, "const int n = 8;\nuse(n);")
    if edit is None:
        return None
    after = text.apply([edit]).text
    return after[after.index("{\n") + 2 : after.rindex("\n}")]


NEW = "  const int n = 8;\n  use(n);\n"


@pytest.mark.parametrize(
    ("above", "loop"),
    [
        ("  a[1] = 2;\n", f"  {LOOP}"),
        ("  a[1] = 2;\n", f"  #pragma unroll 4\n  {LOOP}"),
        ("  a[1] = 2;  // note\n", f"#pragma unroll\n  // the sum\n#pragma nounroll\n\n  {LOOP}"),
        ("  a[1] = 2;\n", f"  UNROLL\n  {LOOP}"),
        ("  a[1] = 2;\n", f"  UNROLL {LOOP}"),
        ("  a[1] = 2;\n", f'  _Pragma("unroll") {LOOP}'),
        ("", f"#if __CUDA_ARCH__ > 800\n#pragma unroll\n#else\n#pragma unroll 2\n#endif\n  {LOOP}"),
        ("#ifdef X\n  #pragma once\n#endif\n#define Y\n", f"  {LOOP}"),
        ("#ifdef X\n  a[1] = 3;\n#endif\n", f"  #pragma unroll\n  {LOOP}"),
        ("  /* #pragma unroll */\n", f"  {LOOP}"),
    ],
)  # fmt: skip
def test_it_stands_above_the_pragmas_of_the_loop(above: str, loop: str) -> None:
    if "once" in above:  # a pragma in an `#if` of its own goes with it
        assert edited(above + loop) == NEW + above + loop
    else:
        assert edited(above + loop) == above + NEW + loop


def test_on_a_line_with_other_code_it_stands_in_the_line() -> None:
    assert edited(f"  a[1] = 2; {LOOP}") == f"  a[1] = 2; const int n = 8; use(n); {LOOP}"


@pytest.mark.parametrize(
    "body",
    [
        f"  if (a[0]) {LOOP}",
        f"  again: {LOOP}",
        f"  while (a[0])\n    {LOOP}",
        "  EACH(i) a[i] = 0;",
        f"  if (a[0]) a[1] = 0; else {LOOP}",
    ],
)
def test_where_no_statement_can_be_added_there_is_no_edit(body: str) -> None:
    assert edited(body) is None
