# SPDX-License-Identifier: Apache-2.0
"""Of kernels that share a name, as overloads do, a rewrite or an idiom edits the one that it is asked for."""

from __future__ import annotations

import sys

import pytest
from tests.tools.rewrite.test_rewrites import FENCE

from warplens_tools.cuda.parse import parse
from warplens_tools.idioms.registry import IDIOMS
from warplens_tools.rewrite.base import EVERYWHERE, Rewrite
from warplens_tools.rewrite.registry import REWRITES
from warplens_tools.text import SourceText
from warplens_tools.tunable.both import twin_of
from warplens_tools.tunable.source import File

OTHER = "struct Other {};\n__global__ void NAME(Other*) {}\n"


@pytest.mark.parametrize("of", [*REWRITES, *IDIOMS], ids=lambda of: of.slug)
def test_the_second_of_two_kernels_of_a_name_is_edited(of: Rewrite) -> None:
    before, after = FENCE.findall(sys.modules[of.apply.__module__].__doc__ or "")[:2]
    other = OTHER.replace("NAME", parse(SourceText(before), "k.cu").kernels[0].name)
    text = SourceText(other + before)
    model = parse(text, "k.cu")
    result = of.apply(text, model, model.kernels[1], EVERYWHERE)
    assert result.edits, result.refused
    made = text.apply(list(result.edits)).text
    if of.slug == "restrict-const":
        # a call of the other might become one of this
        after = after.replace("const float* __restrict__ gain", "float* __restrict__ gain")
    # what it adds to the file may stand before the other
    assert made.replace(other, "").split() == after.split()
    twin = twin_of(model.kernels[1], File(text, model), File(again := SourceText(made), parse(again, "k.cu")))
    assert twin is not None and twin.parameters[0].type != "Other*"
