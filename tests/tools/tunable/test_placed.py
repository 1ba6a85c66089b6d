# SPDX-License-Identifier: Apache-2.0
"""Pointers that a program takes from within its memory, by its text."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.tunable.placed import placed
from warplens_tools.tunable.source import File

KERNEL = "__global__ void k(const float* x, float* y, int n) { y[threadIdx.x] = x[threadIdx.x]; }\n"
POOL = """
struct Pool {
    float* memory = nullptr;
    size_t used = 0;
    float* take(size_t many) {
        float* piece = memory + used;
        used += many;
        return piece;
    }
};
"""
PIECES = """
struct Piece { float* values; size_t many; };
struct Shelf {
    float* memory;
    size_t used;
    Piece take(size_t many) { Piece piece{memory + used, many}; used += many; return piece; }
};
"""
MAIN = """
int main(int argc, char** argv) {{
    const int n = atoi(argv[1]), first = atoi(argv[2]);
    float *x, *y;
    cudaMalloc(&x, 2 * n * 4);
    cudaMalloc(&y, n * 4);
    {0}
    k<<<n / 64, 64>>>({1}, y, n);
}}
"""


def _placed(set_up: str, given: str, before: str = "") -> bool:
    source = SourceText(before + KERNEL + MAIN.format(set_up, given))
    found = placed(File(source, parse(source, "k.cu")), "k")
    assert found <= {0}
    return bool(found)


@pytest.mark.parametrize(
    ("set_up", "given", "before"),
    [
        ("", "x + first", ""),
        ("", "&x[first]", ""),
        ("float* at = x + first;", "at", ""),
        ("float* at = x; at += first;", "at", ""),
        ("", "reinterpret_cast<float*>(x + first)", ""),
        ("Pool pool; pool.memory = x; float* at = pool.take(n);", "at", POOL),
        ("Pool pool; pool.memory = x;", "pool.take(n)", POOL),
        ("Shelf shelf{x, 0}; Piece one = shelf.take(n);", "one.values", PIECES),
        ("Piece one; one.values = x + first;", "one.values", PIECES),
        ("std::vector<float*> all; all.push_back(x + first);", "all[0]", ""),
        ("", "piece(x, first)", "float* piece(float* all, int from) { return all + from; }\n"),
    ],
)
def test_places_that_the_run_gives(set_up: str, given: str, before: str) -> None:
    assert _placed(set_up, given, before)


@pytest.mark.parametrize(
    ("set_up", "given", "before"),
    [
        ("", "x", ""),
        ("", "x + 1024", ""),
        ("float* at = x;", "at", ""),
        # as the text makes them
        ("const int from = (first + 31) / 32 * 32;", "x + from", ""),
        ("const int from = first & ~31;", "x + from", ""),
        ("Pool pool; pool.memory = x;", "pool.take(n)", POOL.replace("+= many", "+= (many + 63) / 64 * 64")),
        (
            "Shelf shelf{x, 0}; Piece one = shelf.take(n);",
            "one.values",
            PIECES.replace("+= many", "+= aligned(many)"),
        ),
        ("Piece one{x, 5};", "one.values", PIECES.replace("memory + used", "memory")),
    ],
)
def test_what_lies_where_vectors_do(set_up: str, given: str, before: str) -> None:
    assert not _placed(set_up, given, before)
