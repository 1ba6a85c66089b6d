# SPDX-License-Identifier: Apache-2.0
"""An atomic behind what another atomic brought is a claim's: each place is claimed once, however often threads try."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.facts.atomics import atomics
from warplens_tools.cuda.parse import model_of
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.text import SourceText

KERNEL = """\
__global__ void k(int *seen, int *count, int *list, const int *edges, int n)
{{
    for (int e = threadIdx.x; e < n; e += blockDim.x) {{
        int v = edges[e];
        {}
    }}
}}
"""


def claimed(body: str) -> bool:
    """Of the atomic on the counter."""
    tree = parse_tree(SourceText(KERNEL.format(body)))
    (kernel,) = model_of(tree, "k.cu").kernels
    (counted,) = (a for a in atomics(tree, kernel) if a.name == "count")
    return counted.claimed


@pytest.mark.parametrize(
    "body",
    [
        "if (atomicExch(&seen[v], 1) == 0) list[atomicAdd(count, 1)] = v;",
        "if (seen[v] < 0 && atomicCAS(&seen[v], -1, e) == -1) atomicAdd(count, 1);",
        "int old = atomicMin(&seen[v], e); if (old > e) atomicAdd(count, 1);",
        "int old = atomicMin(&seen[v], e); if (old <= e) continue; atomicAdd(count, 1);",
    ],
)
def test_who_claims_a_place_is_told(body: str) -> None:
    assert claimed(body)


@pytest.mark.parametrize(
    "body",
    [
        "atomicAdd(count, 1);",
        "if (seen[v] > 0) atomicAdd(count, 1);",
        "atomicMin(&seen[v], e); atomicAdd(count, v);",
    ],
)
def test_other_tests_claim_nothing(body: str) -> None:
    assert not claimed(body)
