# SPDX-License-Identifier: Apache-2.0
"""Runs of elements that go to one place, added up by the thread before an atomic goes there."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SLUG = "runs-before-atomic"
#: Each thread goes through eight neighbours; what it adds, in the loop's body, is between the braces.
HEAD = """
__global__ void spread(const float* values, const int* keys, float* sums, int* counts, int n) {
  int first = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
  for (int i = first; i < n && i < first + 8; ++i) {
"""
MAIN = """
  int n = atoi(argv[1]), same = atoi(argv[2]);
  std::vector<float> values(n), sums(n + 2);
  std::vector<int> keys(n), counts(n + 2);
  for (int i = 0; i < n; i++) {
    values[i] = (i * 29 % 31) * 0.25f - 3.0f;
    keys[i] = same > 0 ? i / same : i * 7 % n;
  }
  float *v, *s;
  int *k, *c;
  cudaMalloc(&v, n * sizeof(float));
  cudaMalloc(&k, n * sizeof(int));
  cudaMalloc(&s, (n + 2) * sizeof(float));
  cudaMalloc(&c, (n + 2) * sizeof(int));
  cudaMemcpy(v, values.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(k, keys.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemset(s, 0, (n + 2) * sizeof(float));
  cudaMemset(c, 0, (n + 2) * sizeof(int));
  LAUNCH;
  cudaMemcpy(sums.data(), s, (n + 2) * sizeof(float), cudaMemcpyDeviceToHost);
  cudaMemcpy(counts.data(), c, (n + 2) * sizeof(int), cudaMemcpyDeviceToHost);
  for (int i = 0; i < n + 2; i++) printf("%.4f %d\\n", sums[i], counts[i]);
"""
RUN = MAIN.replace("LAUNCH", "spread<<<(n + 511) / 512, 64>>>(v, k, s, c, n)")
SIZES = ((1, 1), (100, 3), (777, 40), (513, 0))


def kernel(body: str) -> str:
    return f"{HEAD}    {body}\n  }}\n}}\n"


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("atomicAdd(&sums[keys[i]], values[i]);", 1),
        (
            "int key = keys[i];\n    atomicAdd(sums + key, values[i]);\n    atomicAdd(&sums[key + 1], 2 * values[i]);",
            2,
        ),
        ("if (values[i] < 0) continue;\n    atomicAdd(&counts[keys[i]], 1);", 1),
        ("atomicMax(&counts[keys[i]], i);\n    sums[i] = values[i];", 1),
    ],
)
def test_runs_are_added_up(body: str, kept: int) -> None:
    after = holds(SLUG, program(kernel(body), RUN), *SIZES, relative=1e-5, absolute=1e-4)
    assert after.count("nullptr) atomic") == 2 * kept
    assert rewritten(SLUG, after)[0].refused


def test_integers_come_out_the_same() -> None:
    assert not rewritten(SLUG, kernel("atomicAdd(&counts[keys[i]], 1);"))[0].caveat
    assert "order" in rewritten(SLUG, kernel("atomicAdd(&sums[keys[i]], values[i]);"))[0].caveat


@pytest.mark.parametrize(
    "body",
    [
        # the thread's number says where
        "atomicAdd(&sums[i], values[i]);",
        # one place for the whole loop
        "atomicAdd(&sums[keys[first]], values[i]);",
        "int old = atomicAdd(&counts[keys[i]], 1);\n    sums[old] = 1;",
        "if (values[i] > 0) atomicAdd(&sums[keys[i]], values[i]);",
        # read while it is kept
        "atomicAdd(&sums[keys[i]], values[i] + sums[0]);",
        "atomicAdd(&counts[keys[i]], 1);\n    if (i == 5) return;",
        "atomicAdd(&counts[keys[i]], 1);\n    __syncthreads();",
        # what two kinds make of one place hangs on which came last
        "atomicAdd(&counts[keys[i]], 1);\n    atomicMax(&counts[keys[i] + 1], i);",
    ],
)
def test_what_would_change_is_left(body: str) -> None:
    assert rewritten(SLUG, kernel(body))[0].refused


def test_elements_of_a_thread_are_added_up_before_those_of_the_warp() -> None:
    single = """
__global__ void spread(const float* values, const int* keys, float* sums, int* counts, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(&sums[keys[i]], values[i]);
  atomicAdd(&sums[keys[i] + 1], 0.5f * values[i]);
}
"""
    run = MAIN.replace("LAUNCH", "spread<<<(n + 63) / 64, 64>>>(v, k, s, c, n)")
    after = holds("runs-in-vectors", program(single, run), *SIZES, relative=1e-5, absolute=1e-4)
    assert after.count("nullptr) addTogether(") == 8


def test_a_place_that_is_kept_in_shared_memory_is_not_joined() -> None:
    text = kernel("place = &mine[keys[i] % 8];\n    atomicAdd(place, values[i]);").replace(
        "  int first", "  __shared__ float mine[8];\n  float* place = nullptr;\n  int first"
    )
    assert rewritten("join-before-atomic", text)[0].refused
    joined = rewritten("join-before-atomic", text.replace("mine[keys[i] % 8]", "sums[keys[i]]"))[1]
    assert "addTogether(place, values[i]);" in joined
