# SPDX-License-Identifier: Apache-2.0
"""Who comes to an atomic: single threads, threads that data chooses, or all."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.facts.accesses import accesses
from warplens_tools.cuda.facts.atomics import Atomic, atomics
from warplens_tools.cuda.parse import model_of
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.text import SourceText

HEAD = """\
__global__ void k(const int *v, int *r, int n, int q, float f)
{
    __shared__ int s;
    int i = blockIdx.x * blockDim.x + threadIdx.x, tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    int mine = v[i];
"""


def atomic(body: str) -> Atomic:
    tree = parse_tree(SourceText(HEAD + body + "\n}"))
    (found,) = atomics(tree, model_of(tree, "k.cu").kernels[0], (256, 1, 1))
    return found


@pytest.mark.parametrize(
    "body",
    [
        "if (tid == 0) atomicAdd(r, 1);",
        "if (!tid) atomicAdd(r, 1);",
        "if (tid) return; atomicAdd(r, 1);",
        "if (tid != 0) { return; } atomicAdd(r, 1);",
        "if (tid > 0) { s = 1; } else { atomicAdd(r, 1); }",
        "if (tid == blockDim.x - 1 && mine) atomicAdd(r, mine);",
        "if (mine && tid == n - 1) atomicAdd(r, mine);",
        "if (lane == 0 && warp < 4) atomicAdd(r, 1);",
        "bool first = threadIdx.x == 0; if (first) atomicAdd(r, 1);",
        "if (__builtin_expect(tid == 0, 0)) atomicAdd(r, 1);",
        "tid == 0 ? atomicAdd(r, 1) : 0;",
        "tid == 0 && atomicAdd(r, 1);",
        "int chosen = __ffs(__ballot_sync(~0u, mine)) - 1; if (lane == chosen) atomicAdd(r, 1);",
        "auto w = cg::tiled_partition<32>(cg::this_thread_block()); if (w.thread_rank() == 0) atomicAdd(r, 1);",
        "auto c = cg::coalesced_threads(); if (c.thread_rank() == 0) atomicAdd(r, c.size());",
        "auto c = cg::coalesced_threads(); if (!c.thread_rank()) atomicAdd(r, c.size());",
        "if (blockIdx.x == 0) atomicAdd(r, 1);",
        "if (i == 0) atomicAdd(r, 1);",
        "if (i == n - 1) atomicAdd(r, 1);",
        "if (mine > *r) atomicMax(r, mine);",
        "if (mine < r[0]) atomicMin(&r[0], mine);",
        "for (int j = 0; j < 8; ++j) { if (tid != j) continue; atomicAdd(r, 1); }",
    ],
)
def test_few_come_to_an_atomic_behind_a_choice_of_threads(body: str) -> None:
    assert atomic(body).leader


@pytest.mark.parametrize(
    "body",
    [
        "atomicAdd(r, 1);",
        "if (i < n) atomicAdd(r, 1);",
        "if (i * q < n) atomicAdd(r, 1);",
        "if (tid % q == 0 && i < n) atomicAdd(r, 1);",
        "if (i >= n) return; atomicAdd(r, 1);",
        "if (tid < 128) atomicAdd(r, 1);",
        "if (tid % 2 == 0) atomicAdd(r, 1);",
        "if (tid != 0) atomicAdd(r, 1);",
        "if (n > 0) atomicAdd(r, 1);",
        "if (f != 0.0f) atomicAdd(r, 1);",
        "if (tid == 0) s = 0; atomicAdd(r, 1);",
        "if (tid == 0) { s = 1; return; } atomicAdd(r, 1);",
        "for (int j = i; j < n; j += gridDim.x * blockDim.x) atomicAdd(r, 1);",
        "if (warp == 0 || tid > 3) atomicAdd(r, 1);",
        "auto g = cg::this_grid(); if (g.thread_rank() < n) atomicAdd(r, 1);",
    ],
)
def test_a_bound_or_half_of_the_threads_is_no_choice(body: str) -> None:
    found = atomic(body)
    assert not found.leader
    assert not found.guarded


@pytest.mark.parametrize(
    "body",
    [
        "if (v[i] != 7) atomicAdd(r, 1);",
        "if (mine) atomicAdd(r, 1);",
        "if (i < n && mine > 3) atomicAdd(r, 1);",
        "if (!mine) return; atomicAdd(r, 1);",
        "if (*v != n) atomicAdd(r, 1);",
        "float d = f * mine; if (d * d < 1.0f) atomicAdd(r, 1);",
        "mine == 3 ? atomicAdd(r, 1) : 0;",
        "for (int j = 0; j < n; ++j) { if (v[j] == i) break; atomicAdd(r, 1); }",
    ],
)
def test_data_decides_who_comes(body: str) -> None:
    found = atomic(body)
    assert found.guarded
    assert not found.leader


def test_a_function_of_the_program_is_no_atomic() -> None:
    tree = parse_tree(SourceText(HEAD + "r[atomicAggInc(&r[0])] = mine; atomicAdd_block(&s, 1);\n}"))
    found = atomics(tree, model_of(tree, "k.cu").kernels[0], (256, 1, 1))
    assert [a.function for a in found] == ["atomicAdd_block"]


def test_few_make_an_access_in_a_loop_behind_a_choice_of_threads() -> None:
    body = "if (i == 0) for (int j = 0; j < n; ++j) s += v[j];\nfor (int j = 0; j < n; ++j) s += v[j];"
    tree = parse_tree(SourceText(f"{HEAD}{body}\n}}"))
    found = accesses(tree, model_of(tree, "k.cu").kernels[0], (256, 1, 1))
    assert [a.few for a in found if a.loops] == [True, False]
