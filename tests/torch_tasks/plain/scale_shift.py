# SPDX-License-Identifier: Apache-2.0
"""Scale and shift in a kernel, with its gradients."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

CUDA = """
__global__ void apply(const float* x, const float* s, const float* b, float* y, int rows, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < n) for (int i = blockIdx.y; i < rows; i += gridDim.y) y[(long)i * n + j] = x[(long)i * n + j] * s[j] + b[j];
}
__global__ void gradients(const float* g, const float* x, const float* s, float* gx, double* gs, double* gb,
    int rows, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= n) return;
    double a = 0, c = 0;
    for (int i = blockIdx.y; i < rows; i += gridDim.y) {
        long at = (long)i * n + j;
        a += (double)g[at] * x[at];
        c += g[at];
        gx[at] = g[at] * s[j];
    }
    atomicAdd(gs + j, a);
    atomicAdd(gb + j, c);
}
extern "C" void forward(const float* x, const float* s, const float* b, float* y, int rows, int n)
{
    apply<<<dim3((n + 127) / 128, rows < 4096 ? rows : 4096), 128>>>(x, s, b, y, rows, n);
}
extern "C" void backward(const float* g, const float* x, const float* s, float* gx, double* gs, double* gb, int rows,
    int n)
{
    gradients<<<dim3((n + 127) / 128, 256), 128>>>(g, x, s, gx, gs, gb, rows, n);
}
"""


def built(source: str) -> ctypes.CDLL:
    """The source as a library, compiled by nvcc alone: PyTorch's headers take half a minute."""
    folder = Path(os.environ.get("TORCH_EXTENSIONS_DIR") or tempfile.mkdtemp())
    library = folder / f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.so"
    if not library.exists():
        work = Path(tempfile.mkdtemp())
        (work / "k.cu").write_text(source)
        nvcc = shutil.which("nvcc") or os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin/nvcc"
        flags = ["-O3", "-shared", "-Xcompiler", "-fPIC", "-arch=sm_90", "-o", "k.so", "k.cu"]
        done = subprocess.run([nvcc, *flags], capture_output=True, text=True, check=False, cwd=work)
        if done.returncode:
            raise RuntimeError(done.stderr)
        shutil.copy(work / "k.so", f"{library}.{os.getpid()}")
        Path(f"{library}.{os.getpid()}").replace(library)
    return ctypes.CDLL(str(library))


def at(*arrays: torch.Tensor) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(array.data_ptr()) for array in arrays]


OWN = built(CUDA)


class Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, s: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, s)
        y = torch.empty_like(x)
        OWN.forward(*at(x, s, b, y), *x.shape)
        return y

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, s = ctx.saved_tensors
        g, gx = g.contiguous(), torch.empty_like(x)
        gs, gb = torch.zeros(2, s.numel(), dtype=torch.float64, device=x.device)
        OWN.backward(*at(g, x, s, gx, gs, gb), *x.shape)
        return gx, gs.float(), gb.float()


class ModelNew(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(channels))
        self.shift = nn.Parameter(torch.empty(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Apply.apply(x, self.scale, self.shift)
