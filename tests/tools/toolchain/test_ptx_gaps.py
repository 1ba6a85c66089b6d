# SPDX-License-Identifier: Apache-2.0
"""What lies between the members of structures, by what nvcc makes of kernels that go by it and of others."""

from __future__ import annotations

import pytest
from tests.compiled import ptx_of_each

from warplens_tools.toolchain.ptx_gaps import gaps_in, in_gaps

pytestmark = pytest.mark.compiler

HEAD = "struct S { float most; int at; unsigned char many; };"
PARAMETERS = "(const float* x, S* held, S* best, unsigned char* few, int n)"
MINE = "const int i = blockIdx.x * blockDim.x + threadIdx.x; S s = held[i];"
BODIES = {
    "members": f"{MINE} if (x[i] > s.most) {{ s.most = x[i]; s.at = n; s.many = s.many + 1; }} held[i] = s;",
    "copied whole": f"{MINE} if (x[i] > s.most) {{ s.most = x[i]; s.at = n; ++s.many; }} held[i] = s; best[i] = s;",
    "kept in the gap": f"""{MINE} unsigned char* gap = (unsigned char*)(held + i) + 9; if (gap[0] == (n & 255)) return;
        if (x[i] > s.most) {{ s.most = x[i]; s.at = n; s.many = s.many + 1; }} held[i] = s; gap[0] = n;""",
    "kept in the gap of words": f"""{MINE} unsigned* all = (unsigned*)(held + i); if (all[2] >> 8 == n) return;
        if (x[i] > s.most) {{ s.most = x[i]; s.at = n; s.many = s.many + 1; }} held[i] = s; all[2] |= n << 8;""",
}  # fmt: skip


@pytest.fixture(scope="module")
def ptx() -> dict[str, str]:
    """What nvcc makes of each body."""
    texts = {name: f"__global__ void k{PARAMETERS} {{ {body} }}" for name, body in BODIES.items()}
    return ptx_of_each(texts, "k", head=HEAD)


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("members", "kept in the gap", True),
        ("members", "kept in the gap of words", True),
        ("members", "copied whole", False),
        ("members", "members", False),
        ("copied whole", "members", False),
        # whose own bytes they are may go by them
        ("kept in the gap", "kept in the gap", False),
    ],
)
def test_what_is_kept_between_members_is_told(ptx: dict[str, str], was: str, now: str, told: bool) -> None:
    assert ("that the kernel never reads" in in_gaps(gaps_in(ptx[was]), gaps_in(ptx[now]))) == told
