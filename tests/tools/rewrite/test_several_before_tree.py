# SPDX-License-Identifier: Apache-2.0
"""Blocks that bring one element a thread into their tree bring many: the results stay, block by block or not at all."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

TREE = """
__global__ void total(const float* in, float* out, int n) {
  __shared__ float sums[128];
  const int t = threadIdx.x;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  BRING
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s /= 2) {
    if (t < s) sums[t] += sums[t + s];
    __syncthreads();
  }
  if (t == 0) atomicAdd(out, sums[0]);
}
"""
MAIN = """
  int n = atoi(argv[1]); Device<float> in(n), out(1, 2);
  total<<<(n + 127) / 128, 128>>>(in, out, n); out.show();
"""
BROUGHT = {
    "a choice": "sums[t] = (i < n) ? in[i] * in[i] : 0.0f;",
    "a branch": "if (i < n) sums[t] = in[i]; else sums[t] = 0;",
    "a branch with braces": "if (i < n) {\n    sums[t] = in[i];\n  } else {\n    sums[t] = 0.f;\n  }",
    "a value set before": "sums[t] = 0.0f;\n  if (i < n) sums[t] = fabsf(in[i]);",
    "a variable": "float v = i < n ? in[i] : 0.0f;\n  sums[t] = v;",
    "a variable worked out": """float v = 0;
  // one element
  if (i < n) {
    float x = in[i];
    float p = 1.0f / (1.0f + expf(-x));
    if (i % 3 == 1) {
      v = -p * x;
    } else {
      for (int k = 0; k < 3; k++) v += p * k;
    }
  }
  sums[t] = v;""",
    "a variable set before": "float v = 0;\n  if (i < n) { v = in[i]; }\n  sums[t] = v;",
}


@pytest.mark.compiler
@pytest.mark.parametrize("slug", ["several-before-tree", "vectors-before-tree"])
@pytest.mark.parametrize("name", BROUGHT)
@pytest.mark.sampled(5)
def test_many_elements_are_brought(slug: str, name: str) -> None:
    before = program(TREE.replace("BRING", BROUGHT[name]), MAIN)
    after = holds(slug, before, (5000,), (33,), (4096,), relative=1e-4, absolute=1e-2)
    assert "kItemsPerThread" in after
    assert rewritten(slug, after)[0].refused


SHUFFLED = """
__global__ void lowest(const int* in, const int* mask, int* out, unsigned int n) {
  unsigned int i = threadIdx.x + blockIdx.x * blockDim.x;
  int best = i < n ? in[i] + mask[i] : 1000000;
  for (int d = 16; d > 0; d >>= 1) best = min(best, __shfl_down_sync(0xffffffff, best, d));
  if (threadIdx.x % 32 == 0) atomicMin(out, best);
}
"""
SHUFFLED_MAIN = """
  unsigned n = atoi(argv[1]); Device<int> in(n), mask(n, 2), out(1, 3);
  lowest<<<(n + 255) / 256, 256>>>(in, mask, out, n); out.show();
"""


@pytest.mark.compiler
def test_a_tree_of_shuffles() -> None:
    after = holds("several-before-tree", program(SHUFFLED, SHUFFLED_MAIN), (5000,), (31,))
    assert "best = min(best, in[i] + mask[i]);" in after


@pytest.mark.parametrize(
    "change",
    [
        ("atomicAdd(out, sums[0])", "out[blockIdx.x] = sums[0]"),
        ("atomicAdd(out, sums[0])", "out[0] = sums[0]"),
        ("atomicAdd(out, sums[0])", "atomicMax((int*)out, (int)sums[0])"),
        ("0.0f;", "1.0f;"),
        ("  __syncthreads();\n  for", "  if (i == 3) sums[t] = 9;\n  __syncthreads();\n  for"),
        ("  __syncthreads();\n  for", "  if (n < 9) return;\n  __syncthreads();\n  for"),
        ("sums[t] += sums[t + s]", "sums[t] = max(sums[t], sums[t + s])"),
    ],
)
def test_blocks_with_results_of_their_own_stay(change: tuple[str, str]) -> None:
    before = program(TREE.replace("BRING", BROUGHT["a choice"]), MAIN)
    assert change[0] in before
    assert rewritten("several-before-tree", before.replace(*change))[0].refused


@pytest.mark.parametrize(
    "change",
    [
        ("  __syncthreads();\n  for", "  v *= v;\n  sums[t] = v;\n  __syncthreads();\n  for"),
        ("  __syncthreads();\n  for", "  v += 1.0f;\n  sums[t] = v;\n  __syncthreads();\n  for"),
        ("  __syncthreads();\n  for", "  squares[t] = v * v;\n  __syncthreads();\n  for"),
        ("  __syncthreads();\n  for", "  squares[t] = expf(v);\n  __syncthreads();\n  for"),
        ("  __syncthreads();\n  for", "  if (v > 0.5f) squares[t] = 1.0f;\n  __syncthreads();\n  for"),
        ("atomicAdd(out, sums[0])", "atomicAdd(out, sqrtf(sums[0]))"),
        ("atomicAdd(out, sums[0])", "atomicAdd(out, sums[0] + 1.0f)"),
        ("atomicAdd(out, sums[0])", "{ float s = sums[0]; atomicAdd(out, s * s); }"),
    ],
)
def test_elements_that_are_more_than_joined_stay(change: tuple[str, str]) -> None:
    before = TREE.replace("BRING", BROUGHT["a variable"]).replace("sums[128];", "sums[128], squares[128];")
    assert not rewritten("several-before-tree", program(before, MAIN))[0].refused
    assert change[0] in before
    found = rewritten("several-before-tree", program(before.replace(*change), MAIN))[0]
    assert "more with its elements" in found.refused


@pytest.mark.compiler
def test_a_factor_of_the_sum_may_stay_behind_it() -> None:
    before = TREE.replace("BRING", BROUGHT["a variable"]).replace("out, sums[0]", "out, 2.0f * sums[0] / n")
    holds("several-before-tree", program(before, MAIN), (5000,), (33,), relative=1e-4, absolute=1e-2)


@pytest.mark.parametrize("zero", ["1000000;", "0;"])
@pytest.mark.parametrize(("kind", "join"), [("int", "Min"), ("int", "Max"), ("unsigned", "Max")])
def test_zero_is_no_start_for_all_extremes(zero: str, kind: str, join: str) -> None:
    code = (
        SHUFFLED.replace("1000000;", zero)
        .replace("min(", f"{join.lower()}(")
        .replace("atomicMin", f"atomic{join}")
    )
    code = code.replace("int best", f"{kind} best")
    found = rewritten("several-before-tree", program(code, SHUFFLED_MAIN))[0]
    assert bool(found.refused) == (zero == "0;" and kind == "int")


@pytest.mark.parametrize("odd", ["out[1 + i % 2] = x;", "if (x > 3) return;", "w = x;", "i = 0;"])
def test_an_element_is_worked_out_alone(odd: str) -> None:
    work = BROUGHT["a variable worked out"].replace("float x = in[i];", f"float x = in[i]; {odd}")
    result, _ = rewritten("several-before-tree", program(TREE.replace("BRING", f"float w;\n  {work}"), MAIN))
    assert not result.edits


@pytest.mark.parametrize("slug", ["several-before-tree", "vectors-before-tree"])
def test_what_is_brought_has_its_type_alone(slug: str) -> None:
    code = TREE.replace("BRING", BROUGHT["a choice"]).replace("__shared__ float", "__shared__ volatile float")
    result, after = rewritten(slug, program(code, MAIN))
    assert result.refused or "volatile float joined" not in after
