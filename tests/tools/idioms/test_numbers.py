# SPDX-License-Identifier: Apache-2.0
"""The numbers that idioms bring: programs print the same with the least and the greatest of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
from tests.host_cuda import same_results
from tests.tools.idioms.test_bins_by_lane import PROGRAMS as BINS
from tests.tools.idioms.test_rows import PROGRAMS as ROWS
from tests.tools.idioms.test_tensor_product import MORE as HALVES
from tests.tools.rewrite.on_host import program, rewritten
from tests.tools.rewrite.test_operand_tiles import PROGRAMS as PRODUCTS
from tests.tools.rewrite.test_pairs_in_tiles import PROGRAMS as PAIRS

from warplens_tools.idioms.registry import IDIOMS, idiom

PROGRAMS = {
    "matrix-product": (PRODUCTS["plain"], ("70", "133", "37")),
    "tensor-product": (HALVES["half, both operands along the loop, bias and relu"], ("70", "133", "50")),
    "nearest-rows": (PAIRS["nearest centre"], ("130", "70", "37")),
    "row-in-registers": (ROWS["softmax by pointers"], ("3", "1100")),
    "row-in-warp": (ROWS["softmax by pointers"], ("3", "1100")),
    "bins-by-lane": (BINS["in global memory"], ("3000",)),
}


def test_every_idiom_has_a_program() -> None:
    assert PROGRAMS.keys() == {r.slug for r in IDIOMS}


@pytest.mark.parametrize("chosen", [min, max], ids=["least", "greatest"])
@pytest.mark.parametrize("slug", PROGRAMS)
@pytest.mark.sampled(4)
def test_numbers_may_be_any_of_their_range(slug: str, chosen: Callable[[Sequence[int]], int]) -> None:
    (code, main), arguments = PROGRAMS[slug]
    of = idiom(slug)
    assert of is not None
    before = program(code, main)
    after = rewritten(slug, before)[1]
    for name, values in of.ranges.items():
        if values:
            after = re.sub(rf"(constexpr int {name} = )\d+", rf"\g<1>{chosen(values)}", after)
    same_results(before, after, *arguments, orders=(0, 1), relative=2e-2, absolute=2e-2)
