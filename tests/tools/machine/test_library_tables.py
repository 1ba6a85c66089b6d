# SPDX-License-Identifier: Apache-2.0
"""Tables of the mathematical library are no traffic of device memory; those of the file may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens_tools.arch.load import load_architecture
from warplens_tools.collect.binary import collect_binary
from warplens_tools.collect.cache import BinaryCache
from warplens_tools.cuda.parse import parse
from warplens_tools.evidence import KernelEvidence
from warplens_tools.kernel import KernelView
from warplens_tools.roofline.classify import classify
from warplens_tools.text import SourceText
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import resolve_toolchain

pytestmark = pytest.mark.compiler
CODE = """
__device__ const double table[1 << 20] = {1.0};
__global__ void sines(double *out, const double *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = in[i], sum = 0;
    for (int j = 0; j < 64; ++j)
        sum += sin(x * j);
    out[i] = sum;
}
__global__ void looked_up(double *out, const int *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = table[in[i] & ((1 << 20) - 1)];
}
void f(double *out, const double *in, const int *places)
{
    sines<<<16384, 256>>>(out, in, 1 << 22);
    looked_up<<<16384, 256>>>(out, places, 1 << 22);
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
    gpu = load_architecture("sm_90")
    return {k.name: KernelView(k, model, text, gpu, evidence[k.name]) for k in model.kernels}


def test_coefficients_of_a_double_sine_are_no_traffic(views: dict[str, KernelView]) -> None:
    view = views["sines"]
    assert any("128" in x.modifiers for x in view.sass.instructions if x.opcode == "LDG")
    moved = view.traffic.moved()
    # a warp reads 32 doubles and writes as many
    assert moved.known and moved.lower == moved.upper == pytest.approx(2 * 32 * 8, rel=0.01)
    said = classify(view)
    assert said.bound != "memory" and "device memory" not in said.reason


def test_a_table_of_the_file_is_traffic(views: dict[str, KernelView]) -> None:
    # places, the table's elements, and what is written
    assert views["looked_up"].traffic.moved().upper >= 32 * (4 + 8 + 8)
