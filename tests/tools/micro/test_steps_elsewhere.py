# SPDX-License-Identifier: Apache-2.0
"""Steps of a loop whose launch stands in another file than the kernel."""

from __future__ import annotations

import msgspec
import pytest

from warplens_tools.finding import Finding
from warplens_tools.micro.pass_per_step import PassPerStep
from warplens_tools.testing import views

ELIMINATE = """\
__global__ void k(float *m, int n, int p)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < n && y != p) m[y * n + x] -= m[y * n + p] * m[p * n + x];
}
"""
DIVIDE = """\
__global__ void k(float *m, int n, int p)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x < n && x != p) m[p * n + x] /= m[p * n + p];
}
"""
LOOP = (
    "void solve(float *m, int n)\n{\n    int p = 0;\n    while (p < n) { k<<<64, 256>>>(m, n, p); p++; }\n}\n"
)
ONCE = "void solve(float *m, int n, int p)\n{\n    k<<<64, 256>>>(m, n, p);\n}\n"


def told(kernel: str, host: str) -> list[Finding]:
    """Of a kernel that a host function of another file launches."""
    (whole,), (view,) = views(kernel + host), views(kernel)
    sites = tuple(msgspec.structs.replace(s, path="solve.cu") for s in whole.model.launches)
    model = msgspec.structs.replace(view.model, elsewhere=sites)
    return list(PassPerStep(msgspec.structs.replace(view, model=model)).check())


@pytest.mark.parametrize(("kernel", "said"), [(ELIMINATE, "One pass over m"), (DIVIDE, "for a part of m")])
def test_a_pass_and_a_line_of_each_step_are_told_at_the_kernel(kernel: str, said: str) -> None:
    (finding,) = told(kernel, LOOP)
    assert said in finding.message
    assert "the loop over p in solve" in finding.message
    assert finding.line == 1


def test_a_launch_without_a_loop_is_no_step() -> None:
    assert not told(ELIMINATE, ONCE)
