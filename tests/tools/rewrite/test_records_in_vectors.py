# SPDX-License-Identifier: Apache-2.0
"""Structures that are moved in pieces: programs print the same, aligned or not, and what may not be moved stays."""

from __future__ import annotations

import re

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SLUG = "records-in-vectors"
BODY = "struct Body { float x, y, z; float v[3]; float mass; int kind; };\n"
RUN = "  int n = atoi(argv[1]), o = atoi(argv[2]);\n  Device<float> x(8 * n + 8), y(n, 3);\n"
KEPT = {
    "members in a loop of three, an early return": (
        BODY
        + """
__global__ void drift(Body *bodies, const float *drag, int n)
{
    int tid = blockIdx.x * blockDim.x + threadIdx.x;
    if (tid >= n)
        return;
    if (bodies[tid].mass == 0.0f)
        return;
    for (int d = 0; d < 3; d++)
        bodies[tid].v[d] *= drag[tid];
    bodies[tid].x += bodies[tid].v[0];
    if (bodies[tid].x > 1.0f) { bodies[tid].x = 0.0f; }
}
""",
        "  drift<<<(n + 63) / 64, 64>>>((Body*)(x + o), y, n); x.show();",
        2,
    ),
    "copied and stored whole": (
        BODY
        + """
template <int N>
__global__ void push(const Body* __restrict__ from, Body* __restrict__ to, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const Body& one = from[i];
    Body next = from[i];
    next.x = one.x + N * one.v[0];
    to[i] = next;
  }
}
""",
        "  Device<float> z(8 * n + 8); push<3><<<3, 32>>>((Body*)(x + o), (Body*)(z + o), n); z.show();",
        3,
    ),
    "all others, of 8 bytes": (
        """
struct Point { float x; float y; };
__global__ void nearest(const Point* points, float* best, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float least = 1e30f, x = points[i].x, y = points[i].y;
    for (int j = 0; j < n; j++) {
      if (j == i) continue;
      float dx = points[j].x - x, dy = points[j].y - y;
      least = fminf(least, dx * dx + dy * dy);
    }
    best[i] = least;
  }
}
""",
        "  nearest<<<(n + 31) / 32, 32>>>((Point*)(x + o), y, n); y.show();",
        2,
    ),
}
ALONE = {
    "passed on": ("change(bodies, i);", "passed on"),
    "a member's place": ("set(&bodies[i].x); bodies[i].y = 1;", "place is passed on"),
    "by reference": ("add(bodies[i].x); bodies[i].y = 1;", "place is passed on"),
    "in two branches": ("if (i < n) bodies[i].x = bodies[i].y;", "condition"),
    "left before the store": (
        "bodies[i].x = bodies[i].y; if (n > 3) return; bodies[i].z = 1;",
        "leave before",
    ),
    "others read": ("bodies[i].x = bodies[i].y + bodies[n].x;", "others are read"),
    "one member": ("out[i] = bodies[i].x;", "one member alone"),
    "another index": ("out[i] = bodies[i].x; i += 1; out[i] = bodies[i].y;", "index changes"),
    "for all": ("bodies[n].x = bodies[n].y;", "its thread's own"),
    "neighbours": ("bodies[i].x = 1; __syncthreads(); bodies[i].y = 1;", "leave before"),
}
HEAD = (
    "__device__ void change(Body* b, int i);\n__device__ void set(float* x);\n"
    "__device__ void add(float& x) { x += 1; }\n"
    "__global__ void k(Body* bodies, float* out, int n) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
)


@pytest.mark.parametrize("name", KEPT)
def test_structures_are_moved_in_pieces(name: str) -> None:
    code, main, calls = KEPT[name]
    after = holds(SLUG, program(code, RUN + main), (1, 0), (77, 0), (130, 1))
    kernel = after[after.index("__global__") :]
    assert len(re.findall(r"\b(?:load|store)_\w+\(", kernel)) == calls
    assert "reinterpret_cast<uint" in after


@pytest.mark.parametrize("name", ALONE)
def test_what_may_not_be_moved_is_left_alone(name: str) -> None:
    body, why = ALONE[name]
    result, _ = rewritten(SLUG, f"{BODY}{HEAD}  {body}\n}}\n")
    assert not result.edits
    assert why in result.refused


@pytest.mark.parametrize(
    "declared", ["struct __align__(16) Body { float x, y, z, w; };", "struct Body { float x, y, z; };"]
)
def test_structures_of_other_sizes_and_aligned_ones_are_left_alone(declared: str) -> None:
    result, _ = rewritten(SLUG, f"{declared}\n{HEAD}  bodies[i].x = bodies[i].y;\n}}\n")
    assert "pieces" in result.refused
