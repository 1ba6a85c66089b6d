# SPDX-License-Identifier: Apache-2.0
"""Copies within one memory that go by how far they reach back, by what nvcc makes of both."""

from __future__ import annotations

import pytest
from tests.compiled import ptx_of_each

from warplens_tools.toolchain.ptx_apart import apart_in, overlaps

pytestmark = pytest.mark.compiler

STEP = "struct Step { unsigned short rest, length; int far; };"
HEAD = "__global__ void k(const Step* steps, char* out, char* other)"
BODIES = {
    "in rounds": """for (int left = s.length; left > 0;) { const int now = min(left, s.far);
        for (int i = threadIdx.x; i < now; i += 32) to[i] = to[i - s.far]; __syncwarp(); to += now; left -= now; }""",
    "at once": "for (int i = threadIdx.x; i < s.length; i += 32) { to[i] = to[i - s.far]; __syncwarp(); }",
    "repeated": "for (int i = threadIdx.x; i < s.length; i += 32) to[i] = to[i % s.far - s.far];",
    "asked": """if (s.far < 32) { if (threadIdx.x == 0) for (int i = 0; i < s.length; ++i) to[i] = to[i - s.far]; }
        else for (int i = threadIdx.x; i < s.length; i += 32) { to[i] = to[i - s.far]; __syncwarp(); }""",
    "elsewhere": "for (int i = threadIdx.x; i < s.length; i += 32) other[i] = to[i - s.far];",
}  # fmt: skip


@pytest.fixture(scope="module")
def ptx() -> dict[str, str]:
    """What nvcc makes of each body."""
    start = "const Step s = steps[blockIdx.x]; char* to = out + blockIdx.x * 4096;"
    return ptx_of_each(
        {name: f"{HEAD} {{ {start} {body} }}" for name, body in BODIES.items()}, "k", head=STEP
    )


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("in rounds", "at once", True),
        ("asked", "at once", True),
        ("in rounds", "repeated", False),
        ("in rounds", "asked", False),
        ("in rounds", "elsewhere", False),
        ("at once", "at once", False),
    ],
)
def test_how_far_it_reaches_back_is_asked(ptx: dict[str, str], was: str, now: str, told: bool) -> None:
    assert ("goes by a number behind parameter 1" in overlaps(apart_in(ptx[was]), apart_in(ptx[now]))) == told
