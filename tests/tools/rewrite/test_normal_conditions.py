# SPDX-License-Identifier: Apache-2.0
"""Conditions that ask the data beside a thread's number: the number's limit stands alone."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten
from tests.tools.rewrite.test_normal_ends import plain

COUNT = """
__global__ void lines(const char* text, size_t length, unsigned long long* total) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i < length && text[i] == 3) atomicAdd(total, 1ULL);
}
"""
MAIN = """
  size_t n = atoi(argv[1]);
  Device<char> text(n);
  unsigned long long *total, found = 0;
  cudaMalloc((void**)&total, sizeof(found)); cudaMemcpy(total, &found, sizeof(found), cudaMemcpyHostToDevice);
  lines<<<(n + 255) / 256, 256>>>(text, n, total);
  cudaMemcpy(&found, total, sizeof(found), cudaMemcpyDeviceToHost); printf("%llu\\n", found);
"""
ADDED = "atomicAdd(total, 1ULL);"
SPELLINGS = {
    "one condition of both": COUNT,
    "braces, and the data in two parts": COUNT.replace(
        f"&& text[i] == 3) {ADDED}", f"&& (text[i] == 3 && text[i] != 4)) {{\n    {ADDED}\n  }}"
    ),
    "a return of both": COUNT.replace(
        f"if (i < length && text[i] == 3) {ADDED}", f"if (i >= length || text[i] != 3) return;\n  {ADDED}"
    ),
    "two returns": COUNT.replace(
        f"if (i < length && text[i] == 3) {ADDED}",
        f"if (i >= length) return;\n  if (text[i] < 3 || text[i] > 3) {{\n    return;\n  }}\n  {ADDED}",
    ),
    "a return by a variable that was loaded": COUNT.replace(
        f"if (i < length && text[i] == 3) {ADDED}",
        f"if (i >= length) return;\n  const char c = text[i];\n  if (c != 3) return;\n  {ADDED}",
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", SPELLINGS)
def test_what_is_counted_is_loaded_in_vectors(name: str) -> None:
    after = holds("sum-in-vectors", program(SPELLINGS[name], MAIN), (100_000,), (17,))
    assert "uint4" in after


def test_the_limit_comes_first() -> None:
    assert "if (i < length) if (text[i] == 3)" in plain(COUNT)
    returned = plain(SPELLINGS["a return of both"])
    assert "if (i >= length) return;\n  if (text[i] == 3) {\n    atomicAdd" in returned


@pytest.mark.parametrize(
    "code",
    [
        COUNT.replace("i < length && text[i] == 3", "text[i] == 3 && i < length"),
        COUNT.replace(ADDED, f"{ADDED} else {ADDED}"),
        COUNT.replace("text[i] == 3", "i > 3"),
        COUNT.replace(
            f"if (i < length && text[i] == 3) {ADDED}",
            f"if (text[i] != 3) return;\n  __syncthreads();\n  {ADDED}",
        ),
    ],
    ids=["the data first", "an alternative", "no data", "a barrier behind"],
)
def test_other_conditions_stay(code: str) -> None:
    text = program(code, MAIN)
    assert plain(text) == text


def test_what_nan_fails_is_turned_with_it() -> None:
    turned = COUNT.replace(
        f"if (i < length && text[i] == 3) {ADDED}",
        f"if (i >= length) return;\n  float v = text[i];\n  if (v < 3.0f) return;\n  {ADDED}",
    )
    assert "if (!(v < 3.0f)) {" in plain(turned)
    assert rewritten("sum-in-vectors", program(turned, MAIN))[0].edits
