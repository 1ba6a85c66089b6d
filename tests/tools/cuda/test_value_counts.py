# SPDX-License-Identifier: Apache-2.0
"""Indices that data chooses: what is loaded is a symbol, and types, `%`, `&` and `min` bound how many there are."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.facts.accesses import accesses, indirect_accesses
from warplens_tools.cuda.facts.atomics import atomics
from warplens_tools.cuda.parse import model_of
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.text import SourceText

PARAMETERS = "int *bins, const int *key, const unsigned char *pixel, int n, int base"
HELPERS = "__device__ int hash(int k) { k ^= k >> 3; return k * 7; }\n"


def places(prelude: str, index: str) -> int | None:
    """The places that `atomicAdd(&bins[index], 1)` can name at most."""
    body = f"int i = threadIdx.x; {prelude} atomicAdd(&bins[{index}], 1);"
    tree = parse_tree(SourceText(f"{HELPERS}__global__ void k({PARAMETERS}) {{ {body} }}"))
    (found,) = atomics(tree, model_of(tree, "k.cu").kernels[0])
    return found.places


@pytest.mark.parametrize(
    ("prelude", "index", "expected"),
    [
        ("", "pixel[i]", 256),
        ("", "pixel[i] >> 4", 16),
        ("", "pixel[i] / 16", 16),
        ("", "key[i]", None),
        ("", "key[i] & 63", 64),
        ("", "key[i] % 100", 100),
        ("", "hash(key[i]) % 128", 128),
        ("", "min(key[i], 31)", 32),
        ("", "base + (key[i] & 7) * n", 8),
        ("", "(key[i] & 7) * 4 + (pixel[i] & 3)", 32),
        ("", "(unsigned char)key[i]", 256),
        ("", "static_cast<unsigned char>(key[i])", 256),
        ("unsigned short k = key[i];", "k", 65536),
        ("int k = key[i]; k += 3;", "k & 15", 16),
        ("bool odd = key[i] & 1;", "odd", 2),
        ("", "threadIdx.x % 8", 8),
        ("", "threadIdx.x", None),
        ("", "blockIdx.x + n", 1),
    ],
)
def test_places_of_an_atomic(prelude: str, index: str, expected: int | None) -> None:
    assert places(prelude, index) == expected


def test_what_data_chooses_has_no_index_but_a_trace() -> None:
    body = """
    int row = key[blockIdx.x];
    for (int j = key[i]; j < key[i + 1]; ++j) bins[j] = 0;
    bins[row * n + i] = base;
    bins[pixel[i]] = 1;
    bins[(unsigned char)n] = 2;
    """
    tree = parse_tree(SourceText(f"__global__ void k({PARAMETERS}) {{ int i = threadIdx.x; {body} }}"))
    kernel = model_of(tree, "k.cu").kernels[0]
    written = [a for a in accesses(tree, kernel) if a.writes]
    assert [a.index for a in written] == [None] * 4
    chosen = indirect_accesses(tree, kernel)
    assert [a.indices for a in chosen] == [("j",), ("row * n + i",), ("pixel[i]",)]
    assert [loop.first for loop in chosen[0].loops] == [None]
