# SPDX-License-Identifier: Apache-2.0
"""Two kernels, sums of rows and their roots; wrong: the sums leave out the last column. Built by nvcc alone."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch
from torch import nn

CUDA = r"""
__global__ void sums(const float* x, float* s, int rows, int columns)
{
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float v = 0;
    for (int i = lane; i < columns - 1; i += 32) v += x[(long)row * columns + i] * x[(long)row * columns + i];
    for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    if (!lane) s[row] = v;
}
__global__ void roots(float* s, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) s[i] = sqrtf(s[i]);
}
extern "C" void run(const float* x, float* s, int rows, int columns)
{
    sums<<<(rows + 7) / 8, 256>>>(x, s, rows, columns);
    roots<<<(rows + 255) / 256, 256>>>(s, rows);
}
"""


def built(source: str) -> ctypes.CDLL:
    folder = Path(tempfile.mkdtemp())
    (folder / "k.cu").write_text(source)
    nvcc = shutil.which("nvcc") or os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin/nvcc"
    flags = ["-O3", "-shared", "-Xcompiler", "-fPIC", "-arch=sm_90", "-o", "k.so", "k.cu"]
    done = subprocess.run([nvcc, *flags], capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return ctypes.CDLL(str(folder / "k.so"))


OWN = built(CUDA)


def pointers(*tensors: torch.Tensor) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        s = torch.empty(x.shape[0], device=x.device)
        OWN.run(*pointers(x, s), ctypes.c_int(x.shape[0]), ctypes.c_int(x.shape[1]))
        return s
