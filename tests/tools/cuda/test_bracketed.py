# SPDX-License-Identifier: Apache-2.0
"""Variables in brackets that a parser without types takes for casts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.cuda.facts.accesses import accesses
from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.bracketed import with_conversions, without_brackets
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.text import SourceText

NAMES = "int i, int k, const int Nx, float *p, T *q"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("(k) * (Nx) + (i)", " k  *  Nx  +  i "),
        ("((k) * (Nx)) + (i)", "( k  *  Nx ) +  i "),
        ("x = (k); y = (float) k", "x = (k); y = (float) k"),
        ("(i) & mask", " i  & mask"),
        ("(row) + (col)", " row  + (col)"),  # neither is declared
        # types, and what may be one
        ("(float) *p", "(float) *p"),
        ("(real) *p", "(real) *p"),
        ("(T) * q", "(T) * q"),
        ("(uint8_t) - 1", "(uint8_t) - 1"),
        # no operands
        ("if (k) *p = 0", "if (k) *p = 0"),
        ("sizeof (Nx) * i", "sizeof (Nx) * i"),
        ("f(k) * i", "f(k) * i"),
    ],
)
def test_what_is_bare(written: str, read: str) -> None:
    assert without_brackets(f"void f({NAMES}) {{ {written}; }}") == f"void f({NAMES}) {{ {read}; }}"


@given(st.text(alphabet="(kNx) *+-&if=\n", max_size=40))
def test_a_text_stays_as_long_as_it_was(text: str) -> None:
    whole = f"int k, Nx; {text}"
    bare = without_brackets(whole)
    assert len(bare) == len(whole) and bare.replace(" ", "").replace("(", "").replace(")", "") == (
        whole.replace(" ", "").replace("(", "").replace(")", "")
    )


@pytest.mark.parametrize("macro", [True, False])
def test_an_index_of_bracketed_arguments_is_read(macro: bool) -> None:
    index = "((k) * (Nx) * (Ny) + (i) * (Ny) + j)"
    head = f"#define AT(i, j, k, Nx, Ny) {index}\n" if macro else ""
    used = "AT(i, j, k, Nx, Ny)" if macro else index
    text = SourceText(
        head + "__global__ void f(float* a, int Nx, int Ny) {\n"
        "  int i = threadIdx.x, j = blockIdx.x, k = blockIdx.y;\n"
        f"  a[{used}] = 0;\n}}\n"
    )
    (found,) = accesses(parse_tree(text), parse(text, "k.cu").kernels[0])
    assert found.index is not None and str(found.index.coefficient("threadIdx.x")) != "0"


@pytest.mark.parametrize(
    "said",
    [
        "int ok = (s[0] == '-') & (unsigned(s[1] - '0') < 10u) & (unsigned(s[2] - '0') < 10u)",
        "if (unsigned(i) < 4 && k > 3) return",
        "int ok = (signed(i) < 4) * (unsigned (k) > 4)",
        "int ok = ( unsigned(i) < 4) == (unsigned(k) - 3)",
    ],
)
def test_a_conversion_at_the_beginning_of_brackets_is_no_function(said: str) -> None:
    text = SourceText(
        f"__global__ void f(const char* s, int i, int k) {{ {said}; }}\n__global__ void g() {{}}\n"
    )
    model = parse(text, "k.cu")
    assert model.errors == () and [kernel.name for kernel in model.kernels] == ["f", "g"]
    assert len(with_conversions(said.encode())) == len(said)


def test_pointers_to_functions_are_no_conversions() -> None:
    said = b"void f(unsigned (*g)(int), unsigned(&h)(int))"
    assert with_conversions(said) == said
