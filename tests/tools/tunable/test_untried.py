# SPDX-License-Identifier: Apache-2.0
"""Cases of an edit's own of which one answer never came."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.toolchain.ptx_marks import Line
from warplens_tools.toolchain.ptx_ran import OneSided, Untried
from warplens_tools.tunable.source import File
from warplens_tools.tunable.untried import untried_cases, value_of

PATH = "/a/rows.cu"
BEFORE = """\
__global__ void rows(const float* in, float* out, int n, int length) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = 0; k < length; ++k) sum += in[i * length + k];
    if (sum > 96.0f) sum = 96.0f;
    out[i] = sum;
}
"""
AFTER = """\
constexpr int kRoom = 64;
constexpr float kFew = 0.25f;
__global__ void rows(const float* in, float* out, int n, int length) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    const int most = length <= kRoom ? length : kRoom;
    const int least = min(length, 48);
    if (length % 4 == 0 && in[i] < kFew && length != 'a') {
        sum = in[i];
    }
    for (int k = 0; k < most + least; ++k) sum += in[i * length + k];
    if (sum > 96.0f) sum = 96.0f;
    if (i < n) out[i] = sum;
    if (length % 8 == 5) {
        if (sum > 96.0f) sum = 96.0f;
    }
}
"""


def _line(number: int) -> Line:
    text = AFTER.splitlines()[number - 1]
    return Line(PATH, number, len(text) - len(text.lstrip()) + 1)


def _why(*one_sided: tuple[int, tuple[str, ...]], places: tuple[int, ...] = ()) -> str:
    before, after = (File(text, parse(text, PATH)) for text in (SourceText(BEFORE), SourceText(AFTER)))
    found = tuple(OneSided(_line(number), constants) for number, constants in one_sided)
    tried = Untried(frozenset(_line(number) for number in places), found)
    return untried_cases(before, after, "rows", PATH, tried, frozenset({0.0, 96.0}))


@pytest.mark.parametrize(
    ("line", "constants", "said"),
    [
        # a number by its name, of a comparison or of what is smaller
        (7, ("65",), "length <= kRoom"),
        (8, ("48",), "min(length, 48)"),
        (9, ("0", "3"), "length % 4 == 0"),
        (9, ("0f3E800000",), "in[i] < kFew"),
    ],
)
def test_an_answer_that_never_came_is_not_proven(line: int, constants: tuple[str, ...], said: str) -> None:
    why = _why((line, constants))
    assert f"line {line} of the edit asks `{said}`, which the kernel does not" in why


@pytest.mark.parametrize(
    ("line", "constants"),
    [
        (9, ("97",)),
        # what the kernel asks for, too: by its own words, or by the same number
        (13, ("0f42C00000",)),
        (14, ()),
        # an unrolled loop, what is approximated, whether a quotient is one of 32 bits
        (12, ("3",)),
        (9, ("0f47CE4780",)),
        (9, ("0f7F800000",)),
        # of two conditions the one that is meant
        (9, ("0", "7")),
        (9, ("0", "-4294967296")),
    ],
)
def test_what_the_kernel_or_the_compiler_asks_is_not_the_edits(line: int, constants: tuple[str, ...]) -> None:
    assert _why((line, constants)) == ""


def test_a_case_that_never_ran_is_not_proven() -> None:
    assert "line 10 of the edit never ran" in _why(places=(10,)) == _why((9, ("0", "3")), places=(10,))
    # behind a condition of the kernel's
    assert _why(places=(13,)) == _why(places=(14,)) == ""


def test_what_the_kernel_does_may_be_left_to_a_case_that_never_came() -> None:
    assert _why((15, ("5", "7")), places=(16,)) == ""
    assert "asks `length % 8 == 5`" in _why((15, ("5", "7")))


def test_constants_of_ptx_are_numbers() -> None:
    assert [value_of(c) for c in ("7", "-1", "0xFF", "12U", "0f3F800000", "0d4010000000000000", "%r1")] == [
        7.0,
        -1.0,
        255.0,
        12.0,
        1.0,
        4.0,
        None,
    ]


SWITCHED = """\
__global__ void rows(const float* in, float* out, int n, int length) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __shared__ float held[512];
    const bool fits = length <= 512;
    float sum = 0;
    for (int begin = 0; begin < length; begin += 384) {
        const int end = length - begin < 384 ? length : begin + 384;
        for (int k = begin; k < end; ++k) sum += in[i * length + k];
    }
    if (fits) {
        held[threadIdx.x] = sum;
    } else {
        if (sum > 96.0f) sum = 96.0f;
    }
    if (!fits)
        return;
    out[i] = held[threadIdx.x];
}
"""


def _switched(*one_sided: tuple[int, str], places: tuple[int, ...] = (), text: str = SWITCHED) -> str:
    before, after = (File(source, parse(source, PATH)) for source in (SourceText(BEFORE), SourceText(text)))

    def at(number: int) -> Line:
        line = text.splitlines()[number - 1]
        return Line(PATH, number, len(line) - len(line.lstrip()) + 1)

    found = tuple(OneSided(at(number), (constant,)) for number, constant in one_sided)
    tried = Untried(frozenset(map(at, places)), found)
    return untried_cases(before, after, "rows", PATH, tried, frozenset({0.0, 96.0}))


def test_a_variable_that_leaves_a_case_to_the_kernels_own_code_is_no_matter() -> None:
    assert _switched((5, "513"), places=(14, 17)) == ""
    # alone it says nothing of what is done then, and what is done then may be another's
    assert "asks `length <= 512`" in _switched((5, "513"))
    assert "line 14 of the edit never ran" in _switched(
        (5, "513"), places=(14, 17), text=SWITCHED.replace("if (sum > 96.0f) sum = 96.0f;", "sum = 1.0f;")
    )
    # nor is it left to the kernel where it only ends
    assert "line 17 of the edit never ran" in _switched((5, "513"), places=(17,))


def test_parts_of_a_length_go_on_with_the_next_one() -> None:
    assert _switched((8, "384")) == ""
    assert "asks `length - begin < 384" in _switched((8, "384"), text=SWITCHED.replace("+= 384", "+= length"))


TILES = """\
__global__ void rows(const float* in, float* out, int n, int length) {
    constexpr int kTile = 512;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int from = 0; from < length; from += kTile) {
        const int many = min(kTile, length - from);
        for (int k = 0; k < many; ++k) sum += in[i * length + from + k];
    }
    if (sum > 96.0f) sum = 96.0f;
    out[i] = sum;
}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("min(kTile, length - from)", "std::min(length - from, kTile)"),
        ("from += kTile", "from = from + kTile"),
    ],
)
def test_where_a_part_ends_is_what_its_loop_asks(old: str, new: str) -> None:
    # whether there is anything in a part, which the loop has asked, and whether it is a whole one
    text = TILES.replace(old, new)
    assert _switched((7, "1"), text=text) == ""
    assert _switched((7, "512"), text=text) == ""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        # another step, another limit, another beginning, and one that is set on the way
        ("from += kTile", "from += 2 * kTile", "min(kTile, length - from)"),
        ("from < length", "from < n", "min(kTile, length - from)"),
        ("length - from)", "length - i)", "min(kTile, length - i)"),
        ("many; ++k)", "many; ++k, ++from)", "min(kTile, length - from)"),
        ("length - from)", "length - from - 1)", "min(kTile, length - from - 1)"),
    ],
)
def test_another_end_of_a_part_is_the_edits_own(old: str, new: str, said: str) -> None:
    assert f"asks `{said}`" in _switched((7, "1"), text=TILES.replace(old, new))


LEFT = """\
__global__ void rows(const float* in, float* out, int n, int length, int reach) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = 0; k < length; ++k) {
        if (k < reach) sum += 1;
        sum += in[i * length + k];
    }
    out[i] = sum;
}
"""
FAST = """\
__global__ void rows(const float* in, float* out, int n, int length, int reach) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    if (reach <= 64 && blockDim.x <= 640) {
        for (int k = 0; k < min(reach, length); ++k) sum += 1 + in[i * length + k];
        for (int k = reach; k < length; ++k) sum += in[i * length + k];
        out[i] = sum;
        return;
    }
    for (int k = 0; k < length; ++k) {
        if (k < reach) sum += 1;
        sum += in[i * length + k];
    }
    out[i] = sum;
}
"""


def _left(after: str, *one_sided: tuple[int, tuple[str, ...]], places: tuple[int, ...] = ()) -> str:
    def line(number: int) -> Line:
        text = after.splitlines()[number - 1]
        return Line(PATH, number, len(text) - len(text.lstrip()) + 1)

    old, new = (File(text, parse(text, PATH)) for text in map(SourceText, (LEFT, after)))
    found = tuple(OneSided(line(number), constants) for number, constants in one_sided)
    tried = Untried(frozenset(map(line, places)), found)
    return untried_cases(old, new, "rows", PATH, tried, frozenset())


def test_one_of_several_conditions_may_fail_to_the_kernels_own_code_that_ran() -> None:
    assert _left(FAST, (5, ("640",))) == ""
    # alone, or where what is left is other code, or never ran
    assert "blockDim.x <= 640" in _left(FAST.replace("reach <= 64 && ", ""), (5, ("640",)))
    assert "blockDim.x <= 640" in _left(FAST.replace("sum += 1;\n", "sum += 2;\n"), (5, ("640",)))
    assert "blockDim.x <= 640" in _left(FAST, (5, ("640",)), places=(15,))


def test_a_loop_of_the_kernels_that_never_ran_is_whole() -> None:
    places = (11, 12, 13)
    assert _left(FAST, places=places) == ""
    assert "does more" in _left(FAST.replace("        if (k < reach) sum += 1;\n", ""), places=(11, 12))


def test_the_rest_that_never_ran_is_the_kernels() -> None:
    rest = "    for (int k = 1024; k < length; ++k) {\n        sum -= in[i * length + k];\n    }\n    out[i] = sum;\n}"
    after = LEFT.replace("k < length;", "k < min(length, 1024);").replace("    out[i] = sum;\n}", rest)
    assert "line 10 of the edit never ran" in _left(after, places=(10,))
    assert _left(after.replace("sum -=", "sum +="), places=(10,)) == ""


def test_what_is_left_above_some_bits_is_a_number() -> None:
    after = LEFT.replace("    float sum = 0;", "    float sum = 0;\n    if (length >> 12) { sum = 1; }")
    assert "length >> 12" in _left(after, (5, ("4095",)))
