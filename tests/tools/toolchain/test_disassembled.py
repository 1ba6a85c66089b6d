# SPDX-License-Identifier: Apache-2.0
"""What nvdisasm is not asked to work out changes nothing of what is read from it."""

from __future__ import annotations

import subprocess

import pytest
from tests.compiled import nvcc_made
from tests.disassembled import Wanted, together

from warplens_tools.toolchain.cubin import read_cubin
from warplens_tools.toolchain.disassemble import disassemble, parse_nvdisasm
from warplens_tools.toolchain.locate import Toolchain

pytestmark = pytest.mark.compiler

#: A table of jumps, a call through a pointer, and lanes that part.
PLAIN = """
typedef float (*Function)(float);
__device__ float f(float x) { return sinf(x) * x; }
__device__ float g(float x) { return x / 3; }
__device__ Function table[] = {f, g};
__global__ void jumps(int* o, const int* a, int n) {
  int r = 0;
  switch (a[threadIdx.x]) {
    case 0: r = o[1]; break;
    case 1: r = o[2] * 3; break;
    case 2: r = o[5] ^ n; break;
    case 3: r = __popc(o[3]); break;
    case 4: r = o[4] / n; break;
    case 5: r = o[6] % n; break;
  }
  while (r > n) { r -= a[r]; if (r & 1) __syncthreads(); if (a[r] == 7) return; }
  o[threadIdx.x] = r;
}
__global__ void pointers(float* o, int k) { o[threadIdx.x] = table[k](o[threadIdx.x]); }
__global__ void doubles(double* d) { d[threadIdx.x] = d[1] / sqrt(d[2]); atomicAdd(d, 1.0); }
"""
#: A cap on registers makes one kernel spill; of another the function below does.
SPILLS = """
__global__ void __launch_bounds__(1024, 1) spills(float* o, const float* a) {
  float v[64], s = 0;
  for (int i = 0; i < 64; i++) v[i] = a[i * threadIdx.x];
  __syncthreads();
  for (int i = 0; i < 64; i++) for (int j = 0; j < 64; j++) s += v[i] / v[j];
  for (int i = 0; i < 64; i++) o[i * 1024 + threadIdx.x] = v[i] * s;
}
__device__ int again(int n) { return n < 2 ? n : again(n - 1) + again(n - 2); }
__global__ void spills_below(int* o, int n) { o[threadIdx.x] = again(n); }
"""


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.sampled(1)
def test_without_the_flow_of_data_the_same_is_read(toolchain: Toolchain, arch: str) -> None:
    nvdisasm = toolchain.find("nvdisasm")
    if nvdisasm is None:
        pytest.skip(toolchain.missing["nvdisasm"].why)
    path = nvcc_made("k.cubin", PLAIN + SPILLS, f"-arch={arch}", "-cubin")
    said = subprocess.run([nvdisasm.path, "-c", path], capture_output=True, text=True, check=True).stdout
    whole, cubin = parse_nvdisasm(said), read_cubin(path)
    marked = {name for name, code in whole.items() if any(i.spill for i in code)}
    assert {name for name in whole if cubin.annotated(name)} == marked
    assert "_Z6spillsPfPKf" in marked
    for names in (sorted(marked), sorted(whole.keys() - marked)):
        code = disassemble(nvdisasm.path, path, cubin, names)
        assert code == {name: whole[name] for name in names}


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.sampled(1)
def test_functions_of_several_cubins_are_read_together_as_apart(toolchain: Toolchain, arch: str) -> None:
    """What `checked_soon` rests on, for the tests that use it."""
    nvdisasm = toolchain.find("nvdisasm")
    if nvdisasm is None:
        pytest.skip(toolchain.missing["nvdisasm"].why)
    wanted, apart = [], []
    for text in (PLAIN + SPILLS, PLAIN):
        path = nvcc_made("k.cubin", text, f"-arch={arch}", "-cubin")
        cubin = read_cubin(path)
        names = tuple(name for name in cubin.functions() if not cubin.annotated(name))
        wanted.append(Wanted(path, cubin, names))
        apart.append(disassemble(nvdisasm.path, path, cubin, names))
    assert together(nvdisasm.path, wanted) == apart
    assert len(apart[0]) > len(apart[1]) >= 3
