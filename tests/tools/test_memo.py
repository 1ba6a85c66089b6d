"""The source tier's memory of kernels gives what a fresh analysis gives, whatever was edited."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from warplens_tools.analysis import analyse_file
from warplens_tools.arch.load import load_architecture
from warplens_tools.finding import Finding
from warplens_tools.memo import KernelMemo
from warplens_tools.micro.registry import TOOLS
from warplens_tools.source.parse import parse
from warplens_tools.text import SourceText

TILE = (
    "#define N 32\n__global__ void a(float *o)\n{\n    __shared__ float t[N][N];\n"
    "    t[threadIdx.y][threadIdx.x] = o[threadIdx.x];\n    __syncthreads();\n"
    "    o[threadIdx.x] = t[threadIdx.x][threadIdx.y];\n}\n"
    "__global__ void b(float *o, const float *g, int n)\n{\n"
    "    for (int i = 0; i < n; ++i) o[i * n] = g[0];\n}\n"
    "void run(float *o)\n{\n    int n = 32;\n    float s = 0;\n    a<<<1, dim3(n, 32)>>>(o);\n}\n"
)
GPU = load_architecture("sm_90")


def findings(text: str, memo: KernelMemo | None) -> list[Finding]:
    """Every finding of a text, in file order."""
    source = SourceText(text)
    found = analyse_file(parse(source, "k.cu"), source, GPU, {}, TOOLS, memo)
    return [f for analysis in found for f in analysis.findings]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(TILE)), st.sampled_from(["\n", " ", "x", "33", "// c\n", ""])),
        max_size=6,
    )
)
def test_remembered_findings_equal_fresh_ones(edits: list[tuple[int, str]]) -> None:
    memo = KernelMemo()
    text = TILE
    assert findings(text, memo) == findings(text, None)
    for at, new in edits:
        at = min(at, len(text))
        text = text[:at] + new + text[at + (1 if not new else 0) :]
        assert findings(text, memo) == findings(text, None)


def test_a_kernel_that_moved_keeps_its_findings_on_its_lines() -> None:
    memo = KernelMemo()
    before = findings(TILE, memo)
    after = findings("\n\n" + TILE, memo)
    assert [f.span.line for f in after] == [f.span.line + 2 for f in before]
    assert before
