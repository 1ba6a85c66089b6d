# SPDX-License-Identifier: Apache-2.0
"""What an edit changes of lines that never ran, by the texts."""

from __future__ import annotations

import re

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.toolchain.ptx_marks import Line
from warplens_tools.toolchain.ptx_ran import NeverRan, OneSided
from warplens_tools.tunable.source import File
from warplens_tools.tunable.unseen import Unseen, unseen_changes

PATH = "/a/rows.cu"
TEXT = """\
constexpr int kNone = -7;
__device__ float limited(float v, int mode) {
    if (mode == 2) {
        v = v * 3.0f;
        v = v - 1.0f;
    }
    return v;
}
__global__ void rows(const float* in, const int* places, float* out, int n, int turns, int mode) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int t = 0; t < turns; ++t) sum += in[i] * t;
    if (places[i] == kNone) sum = 0;
    out[i] = limited(sum, mode);
}
static float on_host(float v, int mode) {
    if (mode == 2) v = v * 3.0f;
    return v;
}
"""
#: The same under other names, in another order.
ANEW = """\
constexpr int kNone = -7;
__device__ float limited(float value, int how) {
    if (2 == how) {
        value = value * 3.0f;  // as before
        value = value - 1.0f;
    }
    return value;
}
__global__ void rows(const float* in, const int* places, float* out, int n, int turns, int mode) {
    for (int k = threadIdx.x + blockIdx.x * blockDim.x; k < n; k += gridDim.x * blockDim.x) {
        const int at = places[k];
        float all = 0;
        for (int s = 0; s < turns; ++s) all = fmaf(in[k], s, all);
        out[k] = limited(at != kNone ? all : 0.0f, mode);
    }
}
"""
_BODY = "        v = v * 3.0f;\n        v = v - 1.0f;\n"


def _line(number: int) -> Line:
    text = TEXT.splitlines()[number - 1]
    return Line(PATH, number, len(text) - len(text.lstrip()) + 1)


def _seen(after: str, ran: NeverRan) -> Unseen:
    before, edited = SourceText(TEXT), SourceText(after)
    return unseen_changes(
        File(before, parse(before, PATH)), File(edited, parse(edited, PATH)), "rows", PATH, ran
    )


NOTHING = NeverRan(
    frozenset({_line(4), _line(5)}),
    (OneSided(_line(14), ("-7",)), OneSided(_line(3), ("2",))),
    frozenset({_line(13)}),
)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (_BODY, "        v = v * 3.0f;\n", "line 5 of rows never ran"),
        (_BODY, "        v = 3.0f * v - 1.0f;\n", "lines 4 to 5 of rows never ran"),
        ("    if (mode == 2) {\n", "    if (mode == 4) {\n", "lines 4 to 5 of rows never ran"),
        (
            "    if (places[i] == kNone) sum = 0;\n",
            "",
            "line 14 of rows: `places[i] == kNone` always came out the same",
        ),
        (
            "    for (int t = 0; t < turns; ++t) sum += in[i] * t;\n",
            "    if (0 < turns) sum += in[i] * 0;\n",
            "the loop in line 13 of rows never went round",
        ),
    ],
)
def test_what_never_ran_is_not_proven_where_it_is_changed(old: str, new: str, said: str) -> None:
    assert TEXT.count(old) == 1
    assert _seen(TEXT.replace(old, new), NOTHING).why.startswith(said)


def test_what_never_ran_is_named_where_it_stands() -> None:
    assert _seen(TEXT, NOTHING) == Unseen(left=(3, 4, 5, 14))
    assert _seen(TEXT.replace("in[i] * t", "t * in[i]"), NOTHING) == Unseen(left=(3, 4, 5, 14))


def test_a_kernel_that_is_written_anew_keeps_what_it_asks_for() -> None:
    assert _seen(ANEW, NOTHING) == Unseen(left=(3, 4, 5, 14))


def test_a_parameter_may_have_another_name() -> None:
    renamed = re.sub(r"\bturns\b", "steps", re.sub(r"\bn\b", "rows_there", ANEW))
    assert _seen(renamed, NOTHING) == Unseen(left=(3, 4, 5, 14))


def test_what_ran_may_be_changed_as_one_likes() -> None:
    bare = TEXT.replace("    if (places[i] == kNone) sum = 0;\n", "")
    assert _seen(bare, NeverRan(frozenset(), (), frozenset())) == Unseen()
    # other files' lines, and comparisons that no condition of the line is, say nothing
    strange = NeverRan(
        frozenset({Line("/usr/a.h", 14, 5)}), (OneSided(_line(14), ("0f7F800000",)),), frozenset()
    )
    assert _seen(bare, strange) == Unseen()
