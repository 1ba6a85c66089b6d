# SPDX-License-Identifier: Apache-2.0
"""Double precision in kernels of floats, and loads that a store keeps in a loop."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.facts.double_uses import double_uses
from warplens_tools.cuda.facts.reloads import accumulations, may_alias, reloads
from warplens_tools.cuda.parse import model_of
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.text import SourceText

PRELUDE = """
#define EPS 1e-5
#define HALF_OF(x) ((x) * 0.5)
__device__ float scaled(float x) { return x; }
"""


def uses(body: str, parameters: str = "float* a, const float* b, int n, float s") -> dict[str, str]:
    text = SourceText(f"{PRELUDE}__global__ void k({parameters}) {{ float x = b[0]; {body} }}")
    tree = parse_tree(text)
    found = double_uses(tree, model_of(tree, "k.cu").kernels[0])
    for use in found:
        assert text.slice(use.span) == use.text
    return {use.text: use.replacement for use in found}


CASES: dict[str, dict[str, str]] = {
    "a[0] = x * 2.0;": {"2.0": "2.0f"},
    "a[0] = x + 1.;": {"1.": "1.f"},
    "a[0] = x + .5;": {".5": ".5f"},
    "a[0] = x * 1e-3 + 2.0f;": {"1e-3": "1e-3f"},
    "a[0] += 0.5;": {"0.5": "0.5f"},
    "if (x < -1.5) a[0] = 0;": {"-1.5": "-1.5f"},
    "a[0] = x > 0.1 ? x : s;": {"0.1": "0.1f"},
    "a[0] = x > 0 ? s : 0.25;": {"0.25": "0.25f"},
    "a[0] = n * 0.5;": {"0.5": "0.5f"},
    "a[0] = sqrt(x + 0.5);": {"0.5": "0.5f"},
    "a[0] = pow(x, 2.0);": {"2.0": "2.0f"},
    "a[0] = pow(x, 2);": {"pow": "powf"},
    "a[0] = powf(x, 2);": {},
    "a[0] = x * M_PI;": {"M_PI": "float(M_PI)"},
    "a[0] = x * CUDART_PI;": {"CUDART_PI": "float(CUDART_PI)"},
    "a[0] = x * CUDART_PI_F;": {},
    "a[0] = x + EPS;": {"EPS": "float(EPS)"},
    "a[0] = HALF_OF(x);": {"HALF_OF(x)": ""},
    "a[0] = scaled(x) * 3.0;": {"3.0": "3.0f"},
    "a[0] = unknown(x) + x * 3.0;": {"3.0": ""},
    "float y = 1.0; a[0] = 0.0;": {},
    "a[0] = 2.0f * x + 1 + 0x1e;": {},
    "int m = n * 0.5;": {},
    "double d = 0.0; d += x * 2.0; a[0] = d * 0.5;": {"double d = 0.0;": ""},
    "a[0] = (double)x * 0.5;": {"(double)x": ""},
    "auto y = x; a[0] = y * 0.5;": {"0.5": "0.5f"},
    "// 1.0 * x\n": {},
}


@pytest.mark.parametrize("body", CASES)
def test_double_uses(body: str) -> None:
    assert uses(body) == CASES[body]


@pytest.mark.parametrize("parameters", ["double* a, const float* b", "int* a, double s"])
def test_kernels_of_other_data_are_left_alone(parameters: str) -> None:
    assert uses("a[0] = x * 2.0;", parameters) == {}


def test_what_a_template_is_made_for_may_be_double() -> None:
    text = "template <typename T> __global__ void k(T* a) { float x = 1; a[0] = x * 2.0; }"
    tree = parse_tree(SourceText(text))
    assert double_uses(tree, model_of(tree, "k.cu").kernels[0]) == ()


@pytest.mark.parametrize("parameters", ["int* a", "half* a", "unsigned char* a, int n"])
def test_floats_of_the_threads_own_beside_other_data(parameters: str) -> None:
    assert uses("if (x * x <= 4.0) a[0] = 1;", parameters) == {"4.0": "4.0f"}
    assert uses("double d = x; if (x * x <= 4.0) a[0] = d;", parameters) == {}


def test_vector_types_are_floats() -> None:
    assert uses("a[0] = v[1].x * 2.0;", "float* a, const float4* v") == {"2.0": "2.0f"}


def found_reloads(body: str, parameters: str) -> list[tuple[str, list[str]]]:
    text = SourceText(f"__global__ void k({parameters}, int n) {{ int i = threadIdx.x; {body} }}")
    tree = parse_tree(text)
    found = reloads(tree, model_of(tree, "k.cu").kernels[0])
    return [(text.slice(r.load.span), [text.slice(s.span) for s in r.stores]) for r in found]


LOOP = "for (int j = 0; j < n; ++j) { out[j] = w[i] * in[j]; }"


def test_a_load_is_repeated_because_of_a_store() -> None:
    assert found_reloads(LOOP, "float* out, const float* w, const float* in") == [("w[i]", ["out[j]"])]


@pytest.mark.parametrize(
    ("parameters", "body"),
    [
        ("float* __restrict__ out, const float* w, const float* in", LOOP),
        ("float* out, const float* __restrict__ w, const float* in", LOOP),
        ("float* out, const int* w, const float* in", LOOP),
        ("float* out, float* w, const float* in", "for (int j = 0; j < n; ++j) { out[j] = w[i]; w[j] = 1; }"),
        ("float* out, const float* w, const float* in", "for (int j = 0; j < n; ++j) { s += w[i]; }"),
        ("float* out, const float* w, const int* x", "for (int j = 0; j < n; ++j) { out[j] = w[x[j]]; }"),
        (
            "float* out, const float* w, const int* x",
            "for (int j = 0; j < n; ++j) out[j] = w[j]; out[0] = w[i];",
        ),
    ],
)
def test_what_restrict_would_not_hoist(parameters: str, body: str) -> None:
    assert found_reloads(body, parameters) == []


def found_accumulations(body: str, parameters: str) -> list[tuple[str, list[str]]]:
    text = SourceText(f"__global__ void k({parameters}, int n) {{ int i = threadIdx.x; {body} }}")
    tree = parse_tree(text)
    found = accumulations(tree, model_of(tree, "k.cu").kernels[0])
    return [(text.slice(r.store.span), [text.slice(s.span) for s in r.loads]) for r in found]


SUM = "for (int j = 0; j < n; ++j) { out[i] += w[j] * in[i + j]; }"


@pytest.mark.parametrize("body", [SUM, SUM.replace("+=", "= out[i] +")])
def test_an_element_is_updated_in_memory_because_of_loads(body: str) -> None:
    found = found_accumulations(body, "float* out, const float* w, const float* in")
    assert found == [("out[i]", ["w[j]", "in[i + j]"])]


@pytest.mark.parametrize(
    ("parameters", "body"),
    [
        ("float* __restrict__ out, const float* w, const float* in", SUM),
        ("float* out, const int* w, const int* in", SUM),
        ("float* out, const float* w, const float* in", SUM.replace("out[i]", "out[j]")),
        ("float* out, const float* w, const float* in", SUM.replace("}", "__syncthreads(); }")),
        ("float* out, const float* w, const float* in", "for (int j = 0; j < n; ++j) { out[i] = w[j]; }"),
        ("float* out, const float* w, const float* in", "for (int j = 0; j < n; ++j) { out[i] += out[j]; }"),
    ],
)
def test_what_is_stored_once_or_must_be_stored(parameters: str, body: str) -> None:
    assert found_accumulations(body, parameters) == []


def test_aliasing_follows_the_types() -> None:
    assert may_alias("float", "float4")
    assert may_alias("unsigned int", "int")
    assert may_alias("char", "double")
    assert may_alias("T", "float")
    assert not may_alias("float", "int")
    assert not may_alias("half2", "float2")
