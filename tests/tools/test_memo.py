# SPDX-License-Identifier: Apache-2.0
"""The source tier's memory of kernels gives what a fresh analysis gives, whatever was edited."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens_tools.analysis import KernelAnalysis, analyse_file
from warplens_tools.arch.load import load_architecture
from warplens_tools.cuda.dependencies import Dependencies
from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.definitions import PartTexts
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.evidence import KernelEvidence
from warplens_tools.finding import Finding
from warplens_tools.kernel import KernelView
from warplens_tools.memo import KernelMemo
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.registry import TOOLS
from warplens_tools.text import SourceText

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted([*(ROOT / "tests" / "planted").glob("*.cu"), *(ROOT / "examples" / "first").glob("*.cu")])
TILE = """\
#define N 32
#define ROW(i) ((i) * kPitch)
constexpr int kPitch = 64;
struct Sample { float x; double y; int count; };
__device__ float half_of(float v) { return v * 0.5; }
__global__ void a(float *o)
{
    __shared__ float t[N][N];
    t[threadIdx.y][threadIdx.x] = half_of(o[threadIdx.x]);
    __syncthreads();
    o[threadIdx.x] = t[threadIdx.x][threadIdx.y];
}
namespace inner {
__global__ void b(float *o, const float *g, const Sample *s, int n)
{
    for (int i = 0; i < n; ++i) o[i * n] = g[ROW(threadIdx.x)] + s[threadIdx.x].x;
}
}
int blocks(int n) { return (n + 255) / 256; }
void step(float *o, int n) { inner::b<<<blocks(n), 256>>>(o, o, nullptr, 4096); }
void run(float *o)
{
    int n = 32;
    a<<<1, dim3(n, 32)>>>(o);
    for (int i = 0; i < 1000; ++i) {
        step(o, n);
    }
}
"""
GPU = load_architecture("sm_90")
INSERTED = (
    "\n", " ", "x", "33", "// c\n", "", "{", "}", "/*", "#if 0\n", "#endif\n", "cudaDeviceSynchronize();",
    "#define N 16\n", "int n = 7;", '"',
)  # fmt: skip


def analysed(text: str, memo: KernelMemo | None) -> tuple[KernelAnalysis, ...]:
    """The source tier of a text."""
    source = SourceText(text)
    return analyse_file(parse(source, "k.cu"), source, GPU, {}, TOOLS, memo)


@st.composite
def edits(draw: st.DrawFn) -> list[tuple[float, str, int]]:
    """Where (as a share of the text), what is inserted, and how many characters go there."""
    one = st.tuples(st.floats(0, 1), st.sampled_from(INSERTED), st.sampled_from((0, 0, 0, 1, 3)))
    return draw(st.lists(one, min_size=1, max_size=6))


def check_edits(text: str, changes: list[tuple[float, str, int]]) -> None:
    memo = KernelMemo()
    assert analysed(text, memo) == analysed(text, None)
    for share, new, removed in changes:
        at = round(share * len(text))
        text = text[:at] + new + text[at + removed :]
        assert analysed(text, memo) == analysed(text, None)


@settings(max_examples=40, deadline=None)
@given(edits())
def test_remembered_analyses_equal_fresh_ones(changes: list[tuple[float, str, int]]) -> None:
    check_edits(TILE, changes)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(PROGRAMS), edits())
@pytest.mark.thorough
def test_remembered_analyses_of_programs_equal_fresh_ones(
    program: Path, changes: list[tuple[float, str, int]]
) -> None:
    check_edits(program.read_text(), changes)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_renaming_anything_is_seen(data: st.DataObject) -> None:
    names = list(re.finditer(r"[A-Za-z_]\w*|\d+", TILE))
    place, other = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    memo = KernelMemo()
    analysed(TILE, memo)
    text = TILE[: place.start()] + other[0] + TILE[place.end() :]
    assert analysed(text, memo) == analysed(text, None)


def fresh_after(old: str, new: str) -> set[str]:
    """The kernels of TILE that an edit has analysed anew."""
    seen: list[str] = []

    class Spy(MicroTool):
        code, slug, title = "WL000", "spy", ""
        tiers, relevant = ("source",), TOOLS[0].relevant

        def check(self) -> Iterable[Finding]:
            seen.append(self.view.kernel.qualified_name)
            return ()

    memo = KernelMemo()
    for text in (TILE, TILE.replace(old, new)):
        assert text.count(new if text is not TILE else old) == 1
        seen.clear()
        source = SourceText(text)
        analyse_file(parse(source, "k.cu"), source, GPU, {}, [Spy], memo)
    return set(seen)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("int n = 32;", "int n = 32; // in a comment", set()),
        ("o[i * n]", "o[i * n + 1]", {"inner::b"}),
        ("v * 0.5", "v * 0.25", {"a"}),
        ("kPitch = 64", "kPitch = 128", {"inner::b"}),
        ("N 32", "N 16", {"a"}),
        ("float x; double y;", "double y; float x;", {"inner::b"}),
        ("step(o, n);", "step(o, n); cudaDeviceSynchronize();", {"a", "inner::b"}),
    ],
)
def test_an_edit_has_only_what_rests_on_it_analysed_again(old: str, new: str, expected: set[str]) -> None:
    assert fresh_after(old, new) == expected


def test_a_kernel_that_moved_keeps_its_findings_on_its_lines() -> None:
    memo = KernelMemo()
    before = [f for a in analysed(TILE, memo) for f in a.findings]
    after = [f for a in analysed("\n\n" + TILE, memo) for f in a.findings]
    assert [f.span.line for f in after] == [f.span.line + 2 for f in before]
    assert before


def readers_beyond(text: str, tools: Iterable[type[MicroTool]]) -> set[str]:
    """Tools whose findings on a kernel change with a part of the file that the kernel's key does not rest on.

    Each such part is blanked in turn; where the key notices, the memo does too, and nothing is wrong.
    """
    source = SourceText(text)
    model = parse(source, "k.cu")
    rests_on = Dependencies(parse_tree(source), model, "", PartTexts())
    found = set()
    for kernel in model.kernels:
        basis = rests_on.basis(kernel)
        inside = {(part.start, part.end) for part in basis.parts}
        for part in rests_on.parts:
            at = source.span(part.start, part.end)
            if (part.start, part.end) in inside or at.contains(kernel.span):
                continue
            blank = re.sub(r"[^\n]", " ", text[part.start : part.end])
            other = SourceText(text[: part.start] + blank + text[part.end :])
            changed = parse(other, "k.cu")
            twin = next((k for k in changed.kernels if k.span == kernel.span), None)
            if twin is None:
                continue
            if Dependencies(parse_tree(other), changed, "", PartTexts()).basis(twin).key != basis.key:
                continue
            views = (KernelView(k, m, t, GPU, KernelEvidence()) for k, m, t in
                     ((kernel, model, source), (twin, changed, other)))  # fmt: skip
            before, after = views
            found |= {tool.slug for tool in tools if tool.run(before) != tool.run(after)}
    return found


SOURCE_TOOLS = [tool for tool in TOOLS if "source" in tool.tiers]


@pytest.mark.parametrize("program", [None, *PROGRAMS[::4]], ids=lambda p: p.stem if p else "tile")
def test_no_tool_reads_what_a_kernels_key_does_not_rest_on(program: Path | None) -> None:
    """The memo keeps a kernel's findings until its key changes, so a tool that reads anything else of the file must be
    met there: in `cuda.dependencies`."""
    assert readers_beyond(TILE if program is None else program.read_text(), SOURCE_TOOLS) == set()


def test_a_tool_that_does_is_named() -> None:
    class Nosy(MicroTool):
        code, slug, title = "WL000", "nosy", ""
        tiers, relevant = ("source",), TOOLS[0].relevant

        def check(self) -> Iterable[Finding]:
            seen = (self.view.observe("words of the file", float(len(self.view.text.text.split()))),)
            yield self.finding(None, confidence="low", message="A.", guidance="B.", evidence=seen)

    assert readers_beyond(TILE, [Nosy]) == {"nosy"}
