# SPDX-License-Identifier: Apache-2.0
"""A kernel that chooses its body by the launch's size: the text, what it computes, and when a search makes one."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.host_cuda import HostProgram
from tests.server.agent.doubles import CODE, ComputedJudge, problem

from warplens.agent.dispatch import dispatched
from warplens.agent.moves import Move, Proposal
from warplens.agent.search_loop import optimize
from warplens.agent.versions import Node, Versions
from warplens.measure.judge import Confirmation
from warplens.measure.verdict import Candidate, Verdict
from warplens.store.database import open_store
from warplens.store.runs import list_runs, read_steps
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText, TextEdit
from warplens_tools.tunable.parameter import Geometry

ROOT = """#include <cuda_runtime.h>
#include <cstdio>
__global__ void total(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
  for (int k = 0; k <= i; k++) sum += in[k];
  out[i] = sum;
}
int main() {
  for (int n = 256; n <= 1024; n *= 2) {
    float *in, *out, host[1024];
    for (int i = 0; i < n; i++) host[i] = i % 7;
    cudaMalloc(&in, n * sizeof(float));
    cudaMalloc(&out, n * sizeof(float));
    cudaMemcpy(in, host, n * sizeof(float), cudaMemcpyHostToDevice);
    total<<<(n + 127) / 128, 128>>>(out, in, n);
    cudaMemcpy(host, out, n * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i += 37) printf("%g\\n", host[i]);
  }
}
"""
#: Another body, a helper before it, another qualifier.
STEPS = (
    ("__global__ void total", "__device__ float twice(float x) { return x + x; }\n\n__global__ void total"),
    ("const float* in", "const float* __restrict__ in"),
    (
        "for (int k = 0; k <= i; k++) sum += in[k];",
        "for (int k = i; k >= 0; k--) sum += 0.5f * twice(in[k]);",
    ),
)
SMALL, LARGE = (2, 1, 1), (8, 1, 1)


class _NoSteps:
    sources = ()

    def geometry(self, text: SourceText) -> Geometry:
        del text
        return Geometry()

    def illegal(self, text: SourceText) -> str:
        del text
        return ""


def grown(root: str, steps: Sequence[tuple[str, str]]) -> tuple[Versions, Node]:
    """The versions of a file, and the one that these replacements make."""
    text = SourceText(root)
    versions = Versions(text, path="/k.cu", kernel="total", space=_NoSteps())
    edits = []
    for old, new in steps:
        at = root.index(old)
        edits.append(TextEdit(text.span(at, at + len(old)), new))
    node = versions.grow(versions.root, Proposal(Move(("other",), "rule", "Another body"), tuple(edits)))
    assert node is not None
    return versions, node


@pytest.mark.compiler
def test_each_launch_runs_its_own_body_and_gets_the_same_results() -> None:
    versions, node = grown(ROOT, STEPS)
    child = dispatched(versions, node, LARGE, [SMALL, (4, 1, 1)])
    assert child is not None and child.parent is node
    assert child.ask.move.title == "Keep the original where gridDim.x <= 4"
    body = child.text.text[child.text.text.index("__global__") :]
    assert "  if (gridDim.x <= 4) {\n    int i = " in body
    assert "    for (int k = 0; k <= i; k++) sum += in[k];\n" in body
    assert "  } else {\n" in body and "    for (int k = i; k >= 0; k--)" in body
    # the edits are those of the user's file
    assert versions.root.text.apply(list(child.ask.candidate.edits)).text == child.text.text
    printed = [HostProgram(text).run() for text in (ROOT, node.text.text, child.text.text)]
    assert printed[0] == printed[1] == printed[2]
    assert len(printed[0].splitlines()) > 40


@pytest.mark.parametrize(
    ("heaviest", "slower", "condition"),
    [
        ((8, 1, 1), [(2, 1, 1)], "gridDim.x <= 2"),
        ((2, 1, 1), [(8, 1, 1), (4, 1, 1)], "gridDim.x >= 4"),
        ((8, 2, 1), [(3, 1, 1)], "gridDim.x * gridDim.y * gridDim.z <= 3"),
        ((4, 1, 1), [(2, 1, 1), (8, 1, 1)], ""),
        ((4, 1, 1), [(2, 2, 1)], ""),
        ((4, 1, 1), [], ""),
    ],
)
def test_the_number_of_blocks_tells_launches_apart_or_nothing_does(
    heaviest: tuple[int, int, int], slower: list[tuple[int, int, int]], condition: str
) -> None:
    versions, node = grown(ROOT, STEPS)
    child = dispatched(versions, node, heaviest, slower)
    assert (f"if ({condition}) {{" in child.text.text) if child is not None else condition == ""


@pytest.mark.parametrize(
    "steps",
    [
        [("(n + 127) / 128, 128", "(n + 63) / 64, 64")],
        [*STEPS, ("#include <cstdio>", "#include <cmath>")],
        [("float* out, const float* in, int n)", "float* to, const float* in, int n)"), ("out[i]", "to[i]")],
    ],
    ids=["launch", "what the original rests on", "parameter"],
)
def test_an_edit_that_changes_more_than_the_body_is_not_divided(steps: list[tuple[str, str]]) -> None:
    versions, node = grown(ROOT, steps)
    assert dispatched(versions, node, LARGE, [SMALL]) is None


def test_a_version_with_a_geometry_of_its_own_is_not_divided() -> None:
    versions, node = grown(ROOT, STEPS)
    candidate = msgspec.structs.replace(node.ask.candidate, asks_program=True)
    node.ask = msgspec.structs.replace(node.ask, candidate=candidate)
    assert dispatched(versions, node, LARGE, [SMALL]) is None


class _Mixed(ComputedJudge):
    """Unrolled four times it is faster, but for launches of up to `slow` blocks."""

    slow = ((16, 1, 1), (256, 1, 1))

    def _verdict(self, candidate: Candidate) -> Verdict:
        # what changes launches is not divided
        text = self.text.apply(list(candidate.edits)).text
        other = "#define BLOCK 256" not in text or candidate.block is not None
        return Verdict(candidate.id, "wrong", "planted") if other else super()._verdict(candidate)

    def confirm(self, candidate: Candidate, *, task: Task = UNATTENDED) -> Confirmation:
        found = super().confirm(candidate, task=task)
        kept = re.findall(r"gridDim\.x <= (\d+)", self.text.apply(list(candidate.edits)).text)
        left = [g for g in self.slow if math.prod(g) > (int(kept[0]) if kept else 0)]
        if not left:
            return found
        fallen = msgspec.structs.replace(
            found.verdict, state="same", reason="slower at another launch", slower_at=left[:1]
        )
        return msgspec.structs.replace(found, verdict=fallen)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with open_store(tmp_path) as connection:
        yield connection


def test_a_winner_that_is_slower_elsewhere_leaves_those_launches_as_they_were(
    store: sqlite3.Connection,
) -> None:
    result = optimize(problem(), _Mixed(SourceText(CODE)), store)
    assert result.outcome == "faster"
    after = SourceText(CODE).apply(list(result.edits)).text
    assert "if (gridDim.x <= 256) {" in after and after.count("gridDim.x <=") == 1
    assert "#pragma unroll 1\n" in after and "#pragma unroll 4\n" in after
    steps = read_steps(store, list_runs(store)[0].id)
    assert {s.candidate for s in steps if s.kind == "ask"} == {s.candidate for s in steps if s.kind == "tell"}


def test_one_whose_launches_cannot_be_told_apart_is_no_winner(store: sqlite3.Connection) -> None:
    class Everywhere(_Mixed):
        slow = ((16, 1, 1), (1 << 20, 1, 1))

    result = optimize(problem(), Everywhere(SourceText(CODE)), store)
    assert result.outcome == "nothing" and "slower at another launch" in result.reason
