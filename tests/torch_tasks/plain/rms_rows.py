# SPDX-License-Identifier: Apache-2.0
"""A row by a warp; the weight's gradient by columns."""

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
__global__ void normalize(const float* x, const float* w, float* y, float* r, int rows, int n)
{
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    x += (long)row * n, y += (long)row * n;
    float sum = 0;
    for (int i = lane; i < n; i += 32) sum += x[i] * x[i];
    float inverse = 1.0f / sqrtf(summed(sum) / n + 1e-6f);
    for (int i = lane; i < n; i += 32) y[i] = x[i] * inverse * w[i];
    if (lane == 0) r[row] = inverse;
}
__global__ void of_rows(const float* g, const float* x, const float* w, const float* r, float* gx, int rows, int n)
{
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    g += (long)row * n, x += (long)row * n, gx += (long)row * n;
    float sum = 0, inverse = r[row];
    for (int i = lane; i < n; i += 32) sum += g[i] * w[i] * x[i];
    sum = summed(sum) * inverse * inverse / n;
    for (int i = lane; i < n; i += 32) gx[i] = inverse * (g[i] * w[i] - x[i] * sum);
}
__global__ void of_weight(const float* g, const float* x, const float* r, double* gw, int rows, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= n) return;
    double sum = 0;
    for (int i = blockIdx.y; i < rows; i += gridDim.y) sum += (double)g[(long)i * n + j] * x[(long)i * n + j] * r[i];
    atomicAdd(gw + j, sum);
}
extern "C" void forward(const float* x, const float* w, float* y, float* r, int rows, int n)
{
    normalize<<<(rows + 7) / 8, 256>>>(x, w, y, r, rows, n);
}
extern "C" void backward(const float* g, const float* x, const float* w, const float* r, float* gx, double* gw,
    int rows, int n)
{
    of_rows<<<(rows + 7) / 8, 256>>>(g, x, w, r, gx, rows, n);
    of_weight<<<dim3((n + 127) / 128, 256), 128>>>(g, x, r, gw, rows, n);
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
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y, inverse = torch.empty_like(x), torch.empty(len(x), device=x.device)
        OWN.forward(*at(x, weight, y, inverse), *x.shape)
        ctx.save_for_backward(x, weight, inverse)
        return y

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight, inverse = ctx.saved_tensors
        g, gx = g.contiguous(), torch.empty_like(x)
        gw = torch.zeros_like(weight, dtype=torch.float64)
        OWN.backward(*at(g, x, weight, inverse, gx, gw), *x.shape)
        return gx, gw.float()


class ModelNew(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Apply.apply(x, self.weight)
