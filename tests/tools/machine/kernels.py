# SPDX-License-Identifier: Apache-2.0
"""Kernels with hand-written SASS, for the machine model."""

from __future__ import annotations

from tests.tools.sass.written import code, placed

from warplens_tools.evidence import BinaryEvidence, CompiledKernel, KernelEvidence, Resources
from warplens_tools.kernel import KernelView
from warplens_tools.testing import views

COPY = """\
__global__ void k(const float *a, float *o, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    o[i] = a[i];
}
void f(const float *a, float *o) { k<<<1024, 256>>>(a, o, 262144); }
"""
COPY_SASS = "S2R R0, SR_TID.X\nLDG.E R4, desc[UR4][R2.64]\nSTG.E desc[UR4][R6.64], R4\nEXIT"


def view_of(
    source: str = COPY, listing: str = COPY_SASS, lines: tuple[int, ...] = (3, 4, 4, 5), **resources: int
) -> KernelView:
    """The one kernel of a source with its SASS, an instruction on each of these lines."""
    written = code(listing) if listing else ()
    instructions = tuple(placed(x, *lines[i : i + 1], path="sample.cu") for i, x in enumerate(written))
    compiled = CompiledKernel(
        "k", "k", "k", "sm_90", Resources(**{"registers": 32, **resources}), instructions
    )
    binary = BinaryEvidence("sample.cu", "sm_90", "nvcc 13.0", (), (compiled,), disassembled=True)
    (view,) = views(source, evidence={"k": KernelEvidence(compiled=(compiled,), binary=binary)})
    return view
