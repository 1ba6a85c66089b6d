# SPDX-License-Identifier: Apache-2.0
"""Code that goes by the type that a template is made for."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.tunable.by_type import why_by_type
from warplens_tools.tunable.source import File

PROGRAM = """
template <typename T> __device__ T widened(T v) { return v * T(2); }
template <typename T, int kMany> __global__ void largest(const T* in, T* out, int n) {
    T most = T(0);
    for (int i = threadIdx.x; i < n; i += kMany) {
        const T v = widened(in[i]);
        most = v > most ? v : most;
    }
    out[threadIdx.x] = most;
}
"""
V = "const T v = widened(in[i]);"
MOST = "v > most ? v : most;"
WIDENED = "template <typename T> __device__ T widened(T v)"


def _why(*edits: tuple[str, str]) -> str:
    text = PROGRAM
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    before, after = (File(one, parse(one, "k.cu")) for one in map(SourceText, (PROGRAM, text)))
    return why_by_type(before, after, "largest")


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ((V, f"{V} if (sizeof(T) == 2) continue;"), "sizeof(T) == 2"),
        ((V, f"{V} if constexpr (std::is_same_v<T, float>) continue;"), "is_same_v<T, float>"),
        ((V, f"{V} if (T(0.5) > T(0)) continue;"), "T(0.5) > T(0)"),
        ((V, f"{V} if (*reinterpret_cast<const unsigned*>(&v) >> 31) continue;"), "reinterpret_cast<const unsigned*>"),
        ((V, f"{V} if (*(const unsigned*)&v >> 31) continue;"), "(const unsigned*)&v"),
        ((WIDENED, f"__device__ double widened(double v) {{ return 2 * v; }}\n{WIDENED}"), "widened, which is another"),
    ],
)  # fmt: skip
def test_what_goes_by_the_type_is_told(edit: tuple[str, str], said: str) -> None:
    found = _why(edit)
    assert said in found


@pytest.mark.parametrize(
    "edit",
    [
        (MOST, "most < v ? v : most;"),
        (V, "const T v = widened(in[i]); const int bytes = 16 / sizeof(T);"),
        (V, "struct alignas(16) Four { T of[4]; }; const T v = reinterpret_cast<const T*>(in)[i] * T(2);"),
        (V, f"{V} if (kMany == 32) continue;"),
        (V, f"{V} if (v == T(0)) continue;"),
    ],
)
def test_what_is_the_same_for_all_types_is_not(edit: tuple[str, str]) -> None:
    assert _why(edit) == "" == _why()
