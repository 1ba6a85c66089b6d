# SPDX-License-Identifier: Apache-2.0
"""One kernel for both steps. Built by nvcc alone, without PyTorch's headers."""

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
__global__ void apply(const float* x, const float* scale, const float* shift, float* y, long count, int columns)
{
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = x[i] * scale[i % columns] + shift[i % columns];
}
extern "C" void run(const float* x, const float* scale, const float* shift, float* y, long count, int columns)
{
    apply<<<(count + 255) / 256, 256>>>(x, scale, shift, y, count, columns);
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
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(channels))
        self.shift = nn.Parameter(torch.randn(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        OWN.run(*pointers(x, self.scale, self.shift, y), ctypes.c_long(x.numel()), ctypes.c_int(x.shape[-1]))
        return y
