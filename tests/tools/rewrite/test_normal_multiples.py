# SPDX-License-Identifier: Apache-2.0
"""Codecs: each thread's few bytes end where a multiple of its number does."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program
from tests.tools.rewrite.test_normal_ends import plain

ENCODE = """
__global__ void encode(const unsigned char* in, char* out, int length) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int at = 3 * i;
  if (at >= length) return;
  int a = in[at];
  int b = at + 1 < length ? in[at + 1] : 0;
  int c = 0;
  if (length > at + 2) c = in[at + 2];
  out[4 * i] = 33 + (a >> 2);
  out[4 * i + 1] = 33 + ((a & 3) << 4 | b >> 4);
  out[4 * i + 2] = at + 1 < length ? 33 + ((b & 15) << 2 | c >> 6) : 32;
  out[4 * i + 3] = at + 2 < length ? 33 + (c & 63) : 32;
}
"""
MAIN = """
  int n = atoi(argv[1]), groups = (n + 2) / 3;
  Device<unsigned char> in(n), o(4 * groups, 2);
  encode<<<(groups + 63) / 64, 64>>>(in, (char*)(unsigned char*)o, n); o.show();
"""


@pytest.mark.compiler
def test_groups_of_bytes_are_moved_in_vectors() -> None:
    after = holds("widen-access", program(ENCODE, MAIN), (9601,), (9602,), (9603,), (2,))
    assert "<= (length + 2) / 3" in after
    # the last group may have one byte
    assert "(3 * (first + kVector - 1)) + 1 < length" in after
    assert "length > (3 * (first + kVector - 1)) + 2" in after


@pytest.mark.parametrize(
    ("guard", "found"),
    [
        ("if (3 * i >= length) return;", "if (i >= (length + 2) / 3) return;"),
        ("if (i * 3 + 2 >= length) return;", "if (i >= length / 3) return;"),
        ("if (at + 1 >= length - 1) return;", "if (i >= ((length - 1) + 1) / 3) return;"),
    ],
)
def test_the_number_itself_is_limited(guard: str, found: str) -> None:
    assert found in plain(ENCODE.replace("if (at >= length) return;", guard))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("at >= length", "at > length"),
        ("at >= length", "at + 3 >= length"),
        ("at >= length", "i >= length"),
        ("if (at", "at += 1;\n  if (at"),
        ("= 3 * i", "= 3 * i * i"),
        ("blockIdx.x * blockDim.x + threadIdx.x", "length"),
    ],
)
def test_other_limits_stay(old: str, new: str) -> None:
    code = ENCODE.replace(old, new, 1)
    assert "/ 3" not in plain(code)
