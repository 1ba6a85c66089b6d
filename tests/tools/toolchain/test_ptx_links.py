# SPDX-License-Identifier: Apache-2.0
"""Links are followed where the kernel follows them, by what nvcc makes of both."""

from __future__ import annotations

import pytest
from tests.tools.toolchain.test_ptx_ends import made

from warplens_tools.toolchain.ptx_links import Links, links_in, unfollowed

pytestmark = pytest.mark.compiler

SKIPPED = """
struct Link { int first, skip; };
__global__ void skipped(const float2* bounds, const Link* links, const float* asked, int* out) {
    const float x = asked[threadIdx.x];
    int found = 0, node = 0;
    while (node >= 0) {
        const float2 bound = bounds[node];
        const Link link = LOADED;
        if (x < bound.x || x > bound.y) { node = link.skip; continue; }
        if (link.first >= 0) { node = FIRST; continue; }
        found += ~link.first;
        node = SKIP;
    }
    out[threadIdx.x] = found;
}
"""
CHAINED = """
__global__ void chained(const int* heads, const int* next, const int* keys, int* out) {
    const int key = keys[threadIdx.x];
    int many = 0;
    FOR many += keys[e] == key;
    out[threadIdx.x] = many;
}
"""
STACKED = """
__global__ void stacked(const int2* children, const int* values, int* out) {
    int stack[64], top = 0, sum = 0;
    stack[top++] = threadIdx.x;
    while (top > 0) {
        const int node = stack[--top];
        sum += values[node];
        if (children[node].x < 0) continue;
        stack[top++] = LEFT;
        stack[top++] = children[node].y;
    }
    out[threadIdx.x] = sum;
}
"""


def _links(text: str, **words: str) -> dict[str, Links]:
    return links_in(made(text, **words))


def _skipped(**words: str) -> dict[str, Links]:
    return _links(SKIPPED, **{"LOADED": "links[node]", "FIRST": "link.first", "SKIP": "link.skip"} | words)


@pytest.mark.parametrize(
    "words",
    [
        {"FIRST": "node + 1"},
        {"SKIP": "link.skip < 0 ? -1 : node + 1"},
        {"SKIP": "link.skip < 0 ? -1 : 2 * node - 3"},
    ],
)
def test_what_is_next_is_not_worked_out(words: dict[str, str]) -> None:
    assert "which place is next" in unfollowed(_skipped(), _skipped(**words))


def test_links_may_be_loaded_otherwise() -> None:
    was = _skipped()
    now = _skipped(LOADED="{__ldg(&links[node].first), __ldg(&links[node].skip)}")
    assert unfollowed(was, now) == unfollowed(was, was) == ""
    # what is worked out in the kernel may be in the edit
    other = _skipped(FIRST="node + 1")
    assert unfollowed(other, other) == unfollowed(other, was) == ""


def test_a_list_is_not_taken_for_a_row() -> None:
    was = _links(CHAINED, FOR="for (int e = heads[threadIdx.x]; e >= 0; e = next[e])")
    row = _links(CHAINED, FOR="for (int e = heads[threadIdx.x]; e < next[threadIdx.x]; ++e)")
    ahead = "for (int e = heads[threadIdx.x], then; e >= 0; e = then) if (then = next[e], true)"
    assert "follows no links" in unfollowed(was, row)
    assert unfollowed(was, _links(CHAINED, FOR=ahead)) == unfollowed(row, row) == ""


def test_what_is_put_on_a_stack_is_loaded() -> None:
    was = _links(STACKED, LEFT="children[node].x")
    assert "which place is next" in unfollowed(was, _links(STACKED, LEFT="node + 1"))
    assert unfollowed(was, was) == ""
