# SPDX-License-Identifier: Apache-2.0
"""Accesses that differ by a constant alone lie beside each other; others do not."""

from __future__ import annotations

from warplens_tools.cuda.facts.accesses import accesses
from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.machine.siblings import Place, Siblings, siblings_among
from warplens_tools.text import SourceText

TEXT = """\
__global__ void k(const float *a, const float *b, float *o, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    o[i] = a[2 * i] + a[2 * i + 1] + a[i] + b[2 * i];
    for (int j = 0; j < n; j++) o[i] += a[2 * i];
}
"""


def places() -> list[Place]:
    text = SourceText(TEXT)
    kernel = parse(text, "k.cu").kernel("k")
    assert kernel is not None
    found = accesses(parse_tree(text), kernel)
    return [Place(access, 4, ((0, 4),), (access.span.line,)) for access in found]


def among(name: str) -> list[Siblings]:
    return [s for s in siblings_among(places()).values() if s.places[0].access.name == name]


def test_only_a_constant_and_the_same_loops_make_siblings() -> None:
    # a[2i] and a[2i + 1]; a[i], of another stride; a[2i] in the loop
    assert [len(s.places) for s in among("a")] == [2, 1, 1]
    assert [len(s.places) for s in among("b")] == [1]


def test_what_siblings_take_of_an_element_and_whether_they_read() -> None:
    (element,) = among("b")
    assert element.union == ((0, 4),)
    assert element.read
    written, added_to = among("o")
    assert not written.read
    assert added_to.read
