# SPDX-License-Identifier: Apache-2.0
"""Where SASS knows more of an address than the source, it decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens_tools.analysis import analyse_file
from warplens_tools.arch.load import load_architecture
from warplens_tools.collect.binary import collect_binary
from warplens_tools.collect.cache import BinaryCache
from warplens_tools.cuda.parse import parse
from warplens_tools.evidence import KernelEvidence
from warplens_tools.kernel import KernelView
from warplens_tools.machine.address_evidence import pattern_of
from warplens_tools.micro.registry import all_tools
from warplens_tools.text import SourceText
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import resolve_toolchain

pytestmark = pytest.mark.compiler
GPU = load_architecture("sm_90")
CODE = """
__device__ __forceinline__ int place(int x, int y) { int turned = x; x = y; y = turned; return y * 1024 + x; }
__global__ void by_rows(const float *a, float *b)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    b[y * 1024 + x] = a[place(x, y)];
}
__global__ void wide(const float4 *a, float *b)
{
    __shared__ float s[1024];
    *reinterpret_cast<float4 *>(&s[threadIdx.x * 4]) = a[threadIdx.x];
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k)
        sum += s[threadIdx.x * 4 + k];
    b[threadIdx.x] = sum;
}
struct Points { const float *x, *y; };
__global__ void hoisted(Points points, const float2 *centre, float *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float least = 1e30f;
    for (int c = 0; c < n; ++c)
        least = fminf(least, (points.x[i] - centre[c].x) * (points.y[i] - centre[c].y));
    b[i] = least;
}
void f(const float *a, float *b, Points p)
{
    hoisted<<<64, 256>>>(p, (const float2 *)a, b, 32);
    by_rows<<<dim3(32, 32), dim3(32, 8)>>>(a, b);
    wide<<<1, 256>>>((const float4 *)a, b);
}
"""


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> dict[str, KernelView]:
    """Views of the kernels at the binary tier."""
    folder = tmp_path_factory.mktemp("evidence")
    path = Path(folder / "k.cu")
    path.write_text(CODE)
    text = SourceText.read(path)
    model = parse(text, str(path))
    flags = CompileFlags(("-std=c++17",), "a test")
    found = collect_binary(
        path, toolchain=resolve_toolchain(), flags=flags, arch="sm_90", cache=BinaryCache(folder / "cache")
    )
    evidence = {k.qualified_name: KernelEvidence(compiled=(k,), binary=found) for k in found.kernels}
    return {k.name: KernelView(k, model, text, GPU, evidence[k.name]) for k in model.kernels}


def test_an_index_that_the_source_does_not_follow_is_read_off_sass(views: dict[str, KernelView]) -> None:
    view = views["by_rows"]
    read = next(w for w in view.warp_accesses if w.access.name == "a")
    assert (read.stride, read.sectors, read.ideal_sectors, read.lines) == (4096, 32, 4, 32)
    pattern = pattern_of(view, read.access, "global")
    assert pattern is not None and pattern.sectors == (32, 32)


def test_conflicts_of_merged_accesses_are_those_of_the_wide_one(views: dict[str, KernelView]) -> None:
    view = views["wide"]
    (read,) = [c for c in view.conflicts.every if c.access.reads and not c.access.writes]
    assert (read.degree, read.tier) == (1.0, "binary")
    (analysis,) = [
        a
        for a in analyse_file(view.model, view.text, GPU, {"wide": view.evidence}, all_tools())
        if a.kernel.name == "wide"
    ]
    assert "shared-bank-conflicts" not in {f.slug for f in analysis.findings}


def test_what_the_compiler_moved_elsewhere_is_not_taken_for_its_neighbour(
    views: dict[str, KernelView],
) -> None:
    view = views["hoisted"]
    for name in ("points.x", "points.y"):
        for read in (w for w in view.warp_accesses if w.access.name == name):
            assert read.sectors == 4
            assert pattern_of(view, read.access, "global") is None


def test_without_a_compiler_the_source_stands_alone(views: dict[str, KernelView]) -> None:
    view = views["wide"]
    alone = KernelView(view.kernel, view.model, view.text, GPU, KernelEvidence())
    (read,) = [c for c in alone.conflicts.every if c.access.reads and not c.access.writes]
    assert (read.degree, read.tier) == (4.0, "source")
