# SPDX-License-Identifier: Apache-2.0
"""The table of built-in types, and integer expressions that are converted to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.cuda.syntax.expression import evaluate
from warplens_tools.cuda.syntax.types import Integer, integer_type, type_bytes, vector_element

SPELLED = {
    "int": (4, True),
    "unsigned": (4, False),
    "const unsigned int": (4, False),
    "long unsigned int": (8, False),
    "long long": (8, True),
    "short": (2, True),
    "unsigned char": (1, False),
    "static constexpr std::uint16_t": (2, False),
    "std::size_t": (8, False),
    "ptrdiff_t": (8, True),
    "uint": (4, False),
    "bool": (1, False),
}


@pytest.mark.parametrize("written", SPELLED)
def test_an_integer_is_known_however_it_is_spelled(written: str) -> None:
    found = integer_type(written)
    assert found is not None
    assert (found.bytes, found.signed) == SPELLED[written]
    assert found.is_narrow == (found.bytes < 4)
    assert type_bytes(written) == found.bytes


@pytest.mark.parametrize(
    "written", ["", "const", "float", "int*", "int&", "T", "unsigned T", "dim3", "int4", "auto"]
)
def test_anything_else_is_no_integer(written: str) -> None:
    assert integer_type(written) is None


def test_vectors_and_floats() -> None:
    sizes = {"float4": 16, "float3": 12, "double2": 16, "uchar4": 4, "longlong2": 16, "half2": 4, "__half": 2}
    assert {name: type_bytes(name) for name in sizes} == sizes
    assert vector_element("float4") == ("float", 4)
    assert [vector_element(name) for name in ("float", "half2", "float5", "int1")] == [None] * 4
    assert type_bytes("Unknown4") is None


@given(st.integers(-(2**40), 2**40), st.sampled_from(sorted(SPELLED)))
def test_a_conversion_keeps_the_value_or_is_unknown(value: int, written: str) -> None:
    kept = integer_type(written)
    assert kept is not None
    plain = " ".join(w for w in written.split() if w not in ("const", "static", "constexpr"))
    found = evaluate(f"({plain})x", lambda _: value)
    assert found in (None, value)
    if not kept.holds(value):
        assert found is None


def test_the_range_of_a_type() -> None:
    assert Integer(1, signed=True, values=256).holds(-128)
    assert not Integer(1, signed=True, values=256).holds(128)
    assert [v for v in range(-1, 4) if Integer(1, signed=False, values=2).holds(v)] == [0, 1]
