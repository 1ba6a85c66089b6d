# SPDX-License-Identifier: Apache-2.0
"""Text as others write it, drawn by the probe's own function, on the host."""

from __future__ import annotations

import re

import pytest
from tests.host_cuda import HostProgram

from warplens_tools.run.probe.library import SOURCES

TEXT = "missing 12-34 infinity, Mixed " * 32
PROGRAM = """
#include <cstdio>
#include <cstring>
using u64 = unsigned long long;
template <class T> __device__ const T& element(const T* data, u64 i, u64) { return data[i]; }
PARTS
__global__ void draw(const unsigned char* from, u64 count, u64 way, unsigned char* to) {
    const Source<unsigned char> source{from, count, 0, way, 0};
    for (u64 i = 0; i < count; ++i) to[i] = spelled(source, i, way, 0x1234567887654321ull);
}
int main() {
    const char text[] = "TEXT";
    const u64 count = strlen(text);
    unsigned char *from, *to;
    cudaMalloc(&from, count);
    cudaMalloc(&to, count + 1);
    memcpy(from, text, count);
    to[count] = 0;
    for (u64 way = 6; way < 9; ++way) {
        draw<<<1, 1>>>(from, count, way, to);
        cudaDeviceSynchronize();
        printf("%s\\n", (const char*)to);
    }
}
"""


@pytest.fixture(scope="module")
def drawn() -> list[str]:
    """All ways of it."""
    kernels = (SOURCES / "kernels.cu").read_text()
    heads = (
        r"__device__ inline u64 mix\(",
        r"template <class T>\nstruct Source",
        r"template <class T>\n__device__ T spelled\(",
    )
    parts = [found[0] for head in heads if (found := re.search(rf"{head}.*?\n}};?\n", kernels, re.DOTALL))]
    assert len(parts) == len(heads)
    return HostProgram(PROGRAM.replace("PARTS", "".join(parts)).replace("TEXT", TEXT)).run().splitlines()


def test_letters_change_their_case_alone(drawn: list[str]) -> None:
    assert drawn[0] != TEXT and drawn[0].lower() == TEXT.lower()
    # one letter of a word, and whole stretches
    assert re.search(r"\b[a-z]*[A-Z][a-z]+\b", drawn[0]) and re.search(r"[A-Z]{7} 12-34 [A-Z]{8}", drawn[0])


def test_neighbours_change_places_within_words(drawn: list[str]) -> None:
    assert drawn[1] != TEXT and sorted(drawn[1]) == sorted(TEXT)
    assert re.sub(r"\w", "x", drawn[1]) == re.sub(r"\w", "x", TEXT)
    changed = [(a, b) for a, b in zip(TEXT.split(), drawn[1].split(), strict=True) if a != b]
    assert len(changed) > 32 and all(sorted(a) == sorted(b) for a, b in changed)


def test_characters_are_those_before_or_behind(drawn: list[str]) -> None:
    steps = [ord(b) - ord(a) for a, b in zip(TEXT, drawn[2], strict=True)]
    assert {*steps} == {-1, 0, 1} and steps.count(0) > len(TEXT) * 3 // 4
