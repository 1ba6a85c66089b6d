# SPDX-License-Identifier: Apache-2.0
"""Structures of each thread's own come and go through shared memory, however a kernel names its own."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten
from tests.tools.rewrite.test_normal_ends import plain

AGENT = """
struct Agent { float x, y, vx, vy; int steps; float age[2]; };
__device__ void move(Agent& a, float dt) { a.x += a.vx * dt; a.y += a.vy * dt; }
"""
KERNELS = {
    "a copy that is put back": """
__global__ void step(Agent* agents, float* out, int n, float dt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Agent a = agents[i];
  a.x += a.vx * dt;
  out[i] = a.x;
  agents[i] = a;
}
""",
    "members under a condition": """
__global__ void step(Agent *agents, float *out, const int n, float dt)
{
    const int tid = threadIdx.x + blockDim.x * blockIdx.x;
    if (tid < n) {
        if (agents[tid].vx > 3.0f) agents[tid].vx = -agents[tid].vx;
        agents[tid].age[1] += dt;
        out[tid] = agents[tid].y;
    }
}
""",
    "a pointer": """
__global__ void step(Agent* agents, float* out, int n, float dt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    Agent* a = &agents[i];
    a->x += a->vx * dt;
    out[i] = a->x + a->age[0];
  }
}
""",
    "a reference": """
__global__ void step(Agent* __restrict__ agents, float* __restrict__ out, int n, float dt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Agent& a = agents[i];
  a.y -= dt;
  out[i] = a.y;
}
""",
    "a function": """
__global__ void step(Agent* agents, float* out, int n, float dt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { move(agents[i], dt); out[i] = dt; }
}
""",
    "read alone, by strides": """
__global__ void step(const Agent* agents, float* out, int n, float dt) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    out[i] = agents[i].vx * agents[i].vx + dt * agents[i].vy;
}
""",
    "stored alone": """
__global__ void step(Agent* agents, float* out, int n, float dt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Agent a = {out[i], dt, 1, 2, i, {3, 4}};
  agents[i] = a;
}
""",
}
MAIN = """
  int n = atoi(argv[1]);
  Device<float> a(n * 7), o(n, 3);
  step<<<(n + 63) / 64, 64>>>((Agent*)a.data, o, n, 0.5f); a.show(); o.show();
"""


@pytest.mark.compiler
@pytest.mark.parametrize("name", KERNELS)
def test_results_stay(name: str) -> None:
    after = holds("structures-through-shared", program(AGENT + KERNELS[name], MAIN), (300,), (5,))
    assert ("heldAgents[t] = wordsAgents[t]" in after) == (name != "stored alone")
    assert ("wordsAgents[t] = heldAgents[t]" in after) == (name != "read alone, by strides")


def test_an_even_number_of_words_is_padded() -> None:
    wide = (
        AGENT.replace("age[2]", "age[3]")
        + KERNELS["a function"]
        + "void run() { step<<<1, 64>>>(0, 0, 9, 1); }"
    )
    assert "heldAgents[t / 8 * 9 + t % 8] = wordsAgents[t]" in rewritten("structures-through-shared", wide)[1]


ALONE = {
    "a neighbour's": ("out[i] = a.x;", "out[i] = agents[i ^ 1].x;"),
    "doubles": ("int steps", "double steps"),
    "short": ("int steps; float age[2]; ", ""),
    "its place in the block": ("out[i] = a.x;", "out[i] = a.x + threadIdx.x;"),
    "a barrier": ("out[i] = a.x;", "__syncthreads();"),
}


@pytest.mark.parametrize("name", ALONE)
def test_left_alone(name: str) -> None:
    text = program(AGENT + KERNELS["a copy that is put back"], MAIN).replace(*ALONE[name])
    result = rewritten("structures-through-shared", text)[0]
    assert result.refused


def test_a_name_for_an_element_is_written_out() -> None:
    assert "agents[i].x += agents[i].vx * dt" in plain(AGENT + KERNELS["a pointer"])
    assert "agents[i].y -= dt" in plain(AGENT + KERNELS["a reference"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("out[i] = a->x", "out[i++] = a->x"),
        ("a->x += a->vx * dt;", "a->x += a->vx * dt; a++;"),
        ("&agents[i]", "&agents[(int)out[i]]"),
        ("&agents[i]", "&agents[n - 1 - i].twin[0]"),
    ],
)
def test_other_pointers_stay(old: str, new: str) -> None:
    assert "a->vx" in plain(AGENT + KERNELS["a pointer"].replace(old, new))
