# SPDX-License-Identifier: Apache-2.0
"""A barrier before which any thread may have written what another reads behind it orders something."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.facts.barriers import excess_barriers
from warplens_tools.cuda.parse import model_of
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.text import SourceText

HEAD = """\
__device__ int changed;
struct Limits { float low, high; };
__global__ void k(float *__restrict__ out, const float *__restrict__ in, int n, Limits limits)
{
    __shared__ int flag;
    __shared__ Limits most;
    __shared__ float tile[256];
    float x = in[threadIdx.x];
"""


def kinds(body: str) -> list[str]:
    tree = parse_tree(SourceText(HEAD + body + "\n}"))
    return [b.kind for b in excess_barriers(tree, model_of(tree, "k.cu").kernels[0], (256, 1, 1))]


@pytest.mark.parametrize(
    "between",
    [
        "if (x > 1.0f) flag = 1;",
        "flag = 1;",
        "if (x > 1.0f) ++flag;",
        "flag |= x > 1.0f;",
        "if (x > most.high) most.high = x;",
        "int *p = &flag; *p = 1;",
        "int &f = flag; f = 1;",
        "if (x > 1.0f) changed = 1;",
        "if (x > 1.0f) declared_elsewhere = 1;",
        "static_count.many = 1;",
        "x += flag;",
        "tile[0] = x;",
        "out[0] = x;",
    ],
)
def test_what_others_see_between_two_barriers_keeps_the_second(between: str) -> None:
    body = (
        "if (threadIdx.x == 0) { flag = 0; changed = 0; } __syncthreads(); "
        f"{between} __syncthreads(); if (threadIdx.x == 0 && flag) out[0] = tile[n];"
    )
    assert kinds(body) == []


@pytest.mark.parametrize("write", ["flag = k;", "most.low = x;", "changed = k;"])
def test_a_flag_that_a_loop_writes_keeps_its_barrier(write: str) -> None:
    assert (
        kinds(f"for (int k = 0; k < n; ++k) {{ x += tile[k]; {write} __syncthreads(); }} out[0] = x;") == []
    )


def test_threads_that_keep_to_their_own_elements_still_share_a_flag() -> None:
    body = "tile[threadIdx.x] = x; {} __syncthreads(); out[threadIdx.x] = tile[threadIdx.x]{};"
    assert kinds(body.format("", "")) == ["thread"]
    assert kinds(body.format("if (x > 1.0f) flag = 1;", " + flag")) == []


@pytest.mark.parametrize(
    "between",
    [
        "x = x * 2.0f;",
        "float y = in[n]; x += y;",
        "if (x > limits.high) x = limits.high;",
        "limits.low += x;",
    ],
)
def test_work_of_the_thread_alone_leaves_nothing_to_order(between: str) -> None:
    assert kinds(f"__syncthreads(); {between} __syncthreads(); out[threadIdx.x] = x;") == ["adjacent"]


def test_an_array_that_may_be_the_one_written_keeps_its_barrier() -> None:
    code = "__global__ void k(float *{0} out, const float *{0} in) {{ __syncthreads(); float x = in[blockIdx.x]; "
    code += "__syncthreads(); out[threadIdx.x] = x; }}"
    found = []
    for word in ("__restrict__", ""):
        tree = parse_tree(SourceText(code.format(word)))
        found.append([b.kind for b in excess_barriers(tree, model_of(tree, "k.cu").kernels[0], (256, 1, 1))])
    assert found == [["adjacent"], []]
