# SPDX-License-Identifier: Apache-2.0
"""A key that is compared word by word matches for hardly any thread; labels, bounds and modes may for all."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.facts.matches import matched_sides
from warplens_tools.cuda.parse import model_of
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.text import SourceText

KERNEL = """\
__constant__ unsigned wanted[4];
__global__ void k(const unsigned *a, const int *label, int *found, int mode, int kind, int axis)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned h[4] = {{a[i] * 3u, a[i] * 5u, a[i] * 7u, a[i] * 9u}}, word = h[3];
    if ({}) {{
        *found = i;
    }} else
        found[1] = i;
}}
"""


def matched(test: str) -> list[tuple[int, int]]:
    """Lines of the tests, and of what they guard."""
    tree = parse_tree(SourceText(KERNEL.format(test)))
    found = matched_sides(tree, model_of(tree, "k.cu").kernels[0])
    return [(at, side.line) for at, side in found]


@pytest.mark.parametrize(
    "test",
    [
        "h[0] == wanted[0] && h[1] == wanted[1] && h[2] == wanted[2] && h[3] == wanted[3]",
        "(h[0] == wanted[0]) && (h[1] == wanted[1] && word == wanted[3])",
    ],
)
def test_a_key_is_told(test: str) -> None:
    assert matched(test) == [(6, 6)]


@pytest.mark.parametrize(
    "test",
    [
        "h[0] == wanted[0]",
        "label[i] == label[i + 1] && label[i] == label[i + 2]",
        "h[0] == wanted[0] || h[1] == wanted[1] || h[2] == wanted[2]",
        "!(h[0] == wanted[0] && h[1] == wanted[1] && h[2] == wanted[2])",
        "h[0] < wanted[0] && h[1] < wanted[1] && h[2] < wanted[2]",
        "mode == 1 && kind == 2 && axis == 0",
    ],
)
def test_other_tests_are_not(test: str) -> None:
    assert matched(test) == []
