# SPDX-License-Identifier: Apache-2.0
"""A row by a warp, and its gradients."""

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
__device__ float summed(float v)
{
    for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    return v;
}
__device__ float highest(float v)
{
    for (int o = 16; o; o /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
    return v;
}
__global__ void softmax(const float* x, float* y, float scale, int rows, int n)
{
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    x += (long)row * n, y += (long)row * n;
    float most = -INFINITY, sum = 0;
    for (int i = lane; i < n; i += 32) most = fmaxf(most, x[i] / scale);
    most = highest(most);
    for (int i = lane; i < n; i += 32) sum += expf(x[i] / scale - most);
    sum = summed(sum);
    for (int i = lane; i < n; i += 32) y[i] = expf(x[i] / scale - most) / sum;
}
__global__ void gradients(const float* g, const float* y, float* gx, float scale, int rows, int n)
{
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    g += (long)row * n, y += (long)row * n, gx += (long)row * n;
    float sum = 0;
    for (int i = lane; i < n; i += 32) sum += g[i] * y[i];
    sum = summed(sum);
    for (int i = lane; i < n; i += 32) gx[i] = y[i] * (g[i] - sum) / scale;
}
extern "C" void forward(const float* x, float* y, float scale, int rows, int n)
{
    softmax<<<(rows + 7) / 8, 256>>>(x, y, scale, rows, n);
}
extern "C" void backward(const float* g, const float* y, float* gx, float scale, int rows, int n)
{
    gradients<<<(rows + 7) / 8, 256>>>(g, y, gx, scale, rows, n);
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
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        y = torch.empty_like(x)
        OWN.forward(*at(x, y), ctypes.c_float(scale), *x.shape)
        ctx.save_for_backward(y)
        ctx.scale = scale
        return y

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (y,) = ctx.saved_tensors
        g, gx = g.contiguous(), torch.empty_like(y)
        OWN.backward(*at(g, y, gx), ctypes.c_float(ctx.scale), *y.shape)
        return gx, None


class ModelNew(nn.Module):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Apply.apply(x, self.temperature)
