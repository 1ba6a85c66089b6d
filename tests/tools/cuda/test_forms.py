# SPDX-License-Identifier: Apache-2.0
"""Expressions as forms: every form that is given has the value that C computes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens_tools.cuda.facts.accesses import accesses
from warplens_tools.cuda.parse import model_of
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.cuda.values import forms
from warplens_tools.cuda.values.forms import Form
from warplens_tools.text import SourceText

SYMBOLS = ["threadIdx.x", "threadIdx.y", "blockIdx.x", "blockDim.x", "n"]
values = st.fixed_dictionaries({name: st.integers(0, 40) for name in SYMBOLS})


def index_of(prelude: str, expression: str) -> Form | None:
    text = SourceText(f"__global__ void k(float* a, int n) {{ {prelude} a[{expression}] = 0; }}")
    tree = parse_tree(text)
    kernel = model_of(tree, "k.cu").kernels[0]
    found = accesses(tree, kernel)[0]
    assert found.name == "a"
    return found.index


class Expression:
    """An expression as text, with its value as C gives it (None where that is undefined)."""

    def __init__(self, text: str, parts: tuple[Expression, ...] = (), operator: str = "") -> None:
        self.text, self.parts, self.operator = text, parts, operator

    def __repr__(self) -> str:
        return self.text

    def value(self, of: dict[str, int]) -> int | None:
        if not self.parts:
            return of[self.text] if self.text in of else int(self.text, 0)
        left, right = (part.value(of) for part in self.parts)
        if left is None or right is None:
            return None
        if self.operator in "/%":
            if right == 0:
                return None
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return quotient if self.operator == "/" else left - quotient * right
        if self.operator in ("<<", ">>"):
            return (
                None
                if not 0 <= right < 8 or left < 0
                else left << right
                if self.operator == "<<"
                else left >> right
            )
        return {
            "+": left + right,
            "-": left - right,
            "*": left * right,
            "&": left & right,
            "^": left ^ right,
        }[self.operator]


def combined(parts: tuple[Expression, str, Expression]) -> Expression:
    left, operator, right = parts
    return Expression(f"({left.text}) {operator} ({right.text})", (left, right), operator)


leaves = st.one_of(st.sampled_from(SYMBOLS), st.integers(0, 33).map(str), st.sampled_from(["0x10", "32"]))
operators = st.sampled_from(["+", "-", "*", "/", "%", "&", "^", "<<", ">>"])
expressions = st.recursive(
    leaves.map(Expression), lambda inner: st.tuples(inner, operators, inner).map(combined), max_leaves=7
)


@settings(max_examples=200, deadline=None)
@given(expressions, values)
def test_a_form_has_the_value_of_its_expression(expression: Expression, of: dict[str, int]) -> None:
    form, value = index_of("", expression.text), expression.value(of)
    if form is not None and value is not None:
        assert form.evaluate(of) == value


@settings(max_examples=100, deadline=None)
@given(expressions, values, st.sampled_from(SYMBOLS), st.integers(1, 5))
def test_a_coefficient_is_the_growth(
    expression: Expression, of: dict[str, int], symbol: str, step: int
) -> None:
    form = index_of("", expression.text)
    if form is None or (growth := form.growth(symbol)) is None:
        return
    before, after = form.evaluate(of), form.evaluate(of | {symbol: of[symbol] + step})
    rate = growth.evaluate(of)
    if before is not None and after is not None and rate is not None:
        assert after - before == step * rate
    if not form.mentions(symbol):
        assert growth == forms.ZERO


@settings(max_examples=60, deadline=None)
@given(expressions, expressions, values)
def test_locals_set_once_are_followed(a: Expression, b: Expression, of: dict[str, int]) -> None:
    form = index_of(f"const int u = {a.text}; int v = u + ({b.text});", "v * 2 + u")
    left, right = a.value(of), b.value(of)
    if form is not None and left is not None and right is not None:
        assert form.evaluate(of) == (left + right) * 2 + left


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["=", "+=", "-=", "*="]), expressions), min_size=1, max_size=4), values
)
def test_locals_set_one_statement_after_the_other_are_followed(
    steps: list[tuple[str, Expression]], of: dict[str, int]
) -> None:
    """What stands in between changes other names alone; the last value is that of a plain interpreter."""
    form = index_of(
        "int v = 2; " + " ".join(f"v {op} {e.text}; int w{i} = v;" for i, (op, e) in enumerate(steps)), "v"
    )
    found: int | None = 2
    for op, e in steps:
        right = e.value(of)
        if found is None or right is None:
            return
        found = {"=": right, "+=": found + right, "-=": found - right, "*=": found * right}[op]
    if form is not None:
        assert form.evaluate(of) == found


def test_each_place_has_the_value_that_was_set_before_it() -> None:
    assert index_of("n = 4;", "n") == forms.number(4)
    assert index_of("int i = threadIdx.x; int c = i % 4; i /= 4; int w = i % 8;", "w * 4 + c") == index_of(
        "int t = threadIdx.x;", "t / 4 % 8 * 4 + t % 4"
    )
    assert index_of("int i; i = threadIdx.x + n;", "i") == index_of("", "threadIdx.x + n")
    assert index_of("int i = 1; if (n) { i = 2; int w = i; }", "n") is not None


def test_polynomials_are_equal_whatever_their_order() -> None:
    one = index_of("", "(threadIdx.x + 3) * (n - 1)")
    two = index_of("int m = n - 1;", "m * threadIdx.x + n * 3 - 3")
    assert one == two
    assert one is not None
    assert one.coefficient("threadIdx.x") is None
    assert one.coefficient("threadIdx.y") == 0
    growth = one.growth("threadIdx.x")
    assert growth is not None
    assert forms.describe(growth) == "-1 + n"


def test_what_is_not_derivable_is_unknown() -> None:
    for prelude, expression in [
        ("", "f(threadIdx.x)"),
        ("", "a[threadIdx.x]"),
        ("int i = 0; if (n) i = threadIdx.x;", "i"),
        ("int i = 0; g(&i);", "i"),
        ("int i = 0; h(i);", "i"),
        ('int i; asm volatile("mov.u32 %0, %1;" : "=r"(i) : "r"(n));', "i"),
        ("unsigned char i = threadIdx.x * 64;", "i"),
        ("int i = 2.5f * n;", "i"),
        ("if (threadIdx.x) n = 4;", "n"),
        ("int i = 1; for (int k = 0; k < n; ++k) { i *= 3; }", "i"),
        ("int i = 1; for (int k = 0; k < n; ++k) { h(i); i *= 3; }", "i"),
        ("int i = 1; if ((i = n) > 3) { }", "i"),
        ("int i = 1; again: i += 1; if (i < n) goto again;", "i"),
        ("unsigned char i = 0; i = threadIdx.x * 64;", "i"),
        ("int& r = n; r = 3;", "n"),
        ("int i = i;", "i"),
        ("while (n) { --n; }", "n"),
        ("", "n > 3 ? 0 : threadIdx.x"),
    ]:
        assert index_of(prelude, expression) is None, (prelude, expression)


LINEAR = "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)"
BLOCK, WHICH = "auto b = cg::this_thread_block();", f"16 + ({LINEAR}) / 16"


@pytest.mark.parametrize(
    ("prelude", "expression", "same"),
    [
        ("auto b = cg::this_thread_block();", "b.thread_rank()", LINEAR),
        ("", "cooperative_groups::this_thread_block().thread_rank()", LINEAR),
        ("cg::thread_block b = cg::this_thread_block();", "b.size()", "blockDim.z * blockDim.y * blockDim.x"),
        ("auto b = cg::this_thread_block();", "b.group_index().x + b.thread_index().y", "blockIdx.x + threadIdx.y"),
        ("auto t = cg::tiled_partition<32>(cg::this_thread_block());", "t.thread_rank()", f"({LINEAR}) % 32"),
        (f"{BLOCK} cg::thread_block_tile<16> t = cg::tiled_partition<16>(b);", "t.size() + t.meta_group_rank()", WHICH),
        ("const int W = 8; auto t = cg::tiled_partition<W>(b);", "t.thread_rank()", f"({LINEAR}) % 8"),
    ],
)  # fmt: skip
def test_ranks_of_cooperative_groups_are_forms_of_threads(prelude: str, expression: str, same: str) -> None:
    found = index_of(prelude, expression)
    assert found is not None
    assert found == index_of("", same)


def test_the_rank_in_a_grid_counts_blocks_and_one_among_data_is_unknown() -> None:
    of = {
        "threadIdx.x": 3,
        "threadIdx.y": 0,
        "threadIdx.z": 0,
        "blockIdx.x": 2,
        "blockIdx.y": 1,
        "blockIdx.z": 0,
    }
    of |= {"blockDim.x": 8, "blockDim.y": 1, "blockDim.z": 1, "gridDim.x": 4, "gridDim.y": 2, "gridDim.z": 1}
    grid = index_of("cg::grid_group g = cg::this_grid();", "g.thread_rank()")
    size = index_of("auto g = cg::this_grid();", "g.size()")
    assert grid is not None
    assert size is not None
    assert (grid.evaluate(of), size.evaluate(of)) == ((2 + 4) * 8 + 3, 64)
    assert index_of("auto c = cg::coalesced_threads();", "c.thread_rank()") is None
    assert index_of("Queue q;", "q.size()") is None


@pytest.mark.parametrize(
    ("before", "prelude", "told"),
    [
        ("", "elsewhere(n, 2);", "n"),
        ("", "elsewhere(n);", "n"),
        ("__device__ void here(int& x) { x = 0; }", "here(n);", None),
        ("__device__ int here(int x) { return x; }", "here(n);", "n"),
        ("__device__ int here(const int& x) { return x; }", "here(n);", "n"),
        ("template <typename T> __device__ int here(T x) { return x; }", "here<int>(n);", "n"),
        ("template <typename T> __device__ void here(T& x) { x = 0; }", "here<int>(n);", None),
        ("__device__ int here(const int *&x) { return *x; }", "here(n);", None),
        ("", "const int m = n; elsewhere(m);", "n"),
        ("", "int m = n; elsewhere(m);", None),
        ("", "n = elsewhere(n);", None),
    ],
)
def test_only_a_function_that_the_file_has_changes_a_parameter_by_a_reference(
    before: str, prelude: str, told: str | None
) -> None:
    name = "m" if " m =" in prelude else "n"
    text = SourceText(f"{before}\n__global__ void k(float* a, int n) {{ {prelude} a[{name}] = 0; }}")
    tree = parse_tree(text)
    found = accesses(tree, model_of(tree, "k.cu").kernels[0])[0]
    assert (forms.describe(found.index) if found.index is not None else None) == told


def test_what_all_threads_load_from_one_place_counts_as_a_parameter() -> None:
    text = SourceText(
        "__global__ void k(float* a, const int* w) { a[threadIdx.x * w[blockIdx.x] + w[threadIdx.x]] = 0;"
        " a[threadIdx.x * w[blockIdx.x]] = 0; }"
    )
    tree = parse_tree(text)
    found = [x for x in accesses(tree, model_of(tree, "k.cu").kernels[0]) if x.name == "a"]
    assert [x.index for x in found] == [None, None]
    apart = [x.traced.told_by_lanes for x in found if x.traced is not None]
    assert apart[0] is None
    assert apart[1] is not None
    assert forms.describe(apart[1].growth("threadIdx.x") or Form()) == "w[blockIdx.x]"


CHOICES: dict[str, Callable[[int, int], int]] = {
    "i < 0 ? 0 : i": lambda i, _: max(i, 0),
    "0 > i ? 0 : i": lambda i, _: max(i, 0),
    "i >= n ? n - 1 : i": lambda i, n: min(i, n - 1),
    "i <= n ? i : n": lambda i, n: min(i, n),
    "i < 0 ? 0 : (i >= n ? n - 1 : i)": lambda i, n: max(0, min(i, n - 1)),
    "i > n - 1 ? n - 1 : i < 0 ? 0 : i": lambda i, n: max(0, min(i, n - 1)),
    "i >= 0 ? (i < n ? i : n - 1) : 0": lambda i, n: max(0, min(i, n - 1)),
    "clamped(i, 0, n - 1)": lambda i, n: max(0, min(i, n - 1)),
}


@pytest.mark.parametrize("expression", CHOICES)
def test_a_choice_is_an_extreme(expression: str) -> None:
    text = SourceText(
        "__device__ int clamped(int v, int low, int high) { return v < low ? low : (v > high ? high : v); }\n"
        f"__global__ void k(float* a, int n) {{ int i = threadIdx.x - 5; a[{expression}] = 0; }}"
    )
    tree = parse_tree(text)
    found = accesses(tree, model_of(tree, "k.cu").kernels[0])[0].index
    assert found is not None
    for i in range(-5, 20):
        for n in range(1, 12):
            assert found.evaluate({"threadIdx.x": i + 5, "n": n}) == CHOICES[expression](i, n)


@pytest.mark.parametrize(
    "expression", ["i < n ? 0 : i", "i == 0 ? 0 : i", "i < 0 ? i : n", "i < 3 ? n : i + 1"]
)
def test_any_other_choice_is_none(expression: str) -> None:
    assert index_of("int i = threadIdx.x;", expression) is None
