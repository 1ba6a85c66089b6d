# SPDX-License-Identifier: Apache-2.0
"""What is worked out of a template's type, and is a number in an edit."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.tunable.source import File
from warplens_tools.tunable.types_lost import why_types_lost

PROGRAM = """
template <typename T> __global__ void settled(const T* in, T* out, int n) {
    constexpr int kSteps = Steps<T>::many;
    const T far = cuda::std::numeric_limits<T>::max() / 2;
    T least = far;
    for (int i = threadIdx.x; i < n; i += 32) {
        T v = in[i];
        for (int k = 0; k < kSteps; ++k) v = (v + in[i] / v) / 2;
        least = v < least ? v : least;
    }
    out[threadIdx.x] = least < Steps<T>::small ? T(0) : least < far ? least : T(-1);
}
__global__ void plain(const float* in, float* out) { out[0] = in[0] * Steps<float>::small; }
"""


def _why(*edits: tuple[str, str], kernel: str = "settled") -> str:
    text = PROGRAM
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    before, after = (File(one, parse(one, "k.cu")) for one in map(SourceText, (PROGRAM, text)))
    return why_types_lost(before, after, kernel)


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ([("k < kSteps", "k < 3")], "Steps<T>::many"),
        ([("least < Steps<T>::small", "least < T(1e-6)")], "Steps<T>::small"),
        ([("= cuda::std::numeric_limits<T>::max() / 2", "= T(1e30)")], "numeric_limits<T>::max"),
        # in one place of two
        ([("T least = far", "T least = T(1e30)")], "numeric_limits<T>::max"),
    ],
)  # fmt: skip
def test_numbers_in_the_place_of_what_types_say_are_told(edits: list[tuple[str, str]], said: str) -> None:
    assert said in _why(*edits)


@pytest.mark.parametrize(
    "edits",
    [
        [("kSteps", "kRounds"), ("k < kSteps", "k < kRounds")],
        [("k < kSteps", "k < Steps<T>::many")],
        # another question of the type, or one place less and no number
        [("k < kSteps", "k < 2 + int(Rounds<T>::all)")],
        [("least < far ? least : T(-1)", "least")],
        [("v = (v + in[i] / v) / 2", "v = T(0.5) * (v + in[i] / v)")],
    ],
)
def test_what_still_asks_is_not(edits: list[tuple[str, str]]) -> None:
    assert _why(*edits) == ""


def test_what_is_no_template_asks_no_type() -> None:
    assert _why(("Steps<float>::small", "1e-6f"), kernel="plain") == ""
