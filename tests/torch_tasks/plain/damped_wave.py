# SPDX-License-Identifier: Apache-2.0
"""The chain in one kernel, and its gradients in another."""

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
__global__ void wave(const float* x, const float* t, float* y, long n)
{
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = sinf(x[i]) * expf(-fabsf(t[i])) + x[i];
}
__global__ void gradients(const float* g, const float* x, const float* t, float* gx, float* gt, long n)
{
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float e = expf(-fabsf(t[i])), sign = (t[i] > 0.0f) - (t[i] < 0.0f);
    gx[i] = g[i] * (cosf(x[i]) * e + 1.0f);
    gt[i] = -g[i] * sinf(x[i]) * e * sign;
}
extern "C" void forward(const float* x, const float* t, float* y, long n)
{
    wave<<<(n + 255) / 256, 256>>>(x, t, y, n);
}
extern "C" void backward(const float* g, const float* x, const float* t, float* gx, float* gt, long n)
{
    gradients<<<(n + 255) / 256, 256>>>(g, x, t, gx, gt, n);
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
    def forward(ctx: Any, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, t)
        y = torch.empty_like(x)
        OWN.forward(*at(x, t, y), ctypes.c_long(x.numel()))
        return y

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, t = ctx.saved_tensors
        g, gx, gt = g.contiguous(), torch.empty_like(x), torch.empty_like(t)
        OWN.backward(*at(g, x, t, gx, gt), ctypes.c_long(x.numel()))
        return gx, gt


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return Apply.apply(x, t)
