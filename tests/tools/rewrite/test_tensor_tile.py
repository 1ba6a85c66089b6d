# SPDX-License-Identifier: Apache-2.0
"""Products of half and bfloat16 on tensor cores, which the host simulates a matrix at a time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.host_cuda.program import DEVICE
from tests.standard import STANDARD
from tests.tools.rewrite.on_host import holds, program, rewritten

SIZES = "  int M = atoi(argv[1]), N = atoi(argv[2]), K = atoi(argv[3]);\n"
LINEAR = """
__global__ void linear(half* out, const half* inp, const half* weight, const half* bias, int B, int IC, int OC) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    int o = blockIdx.y * blockDim.y + threadIdx.y;
    if (b < B && o < OC) {
        float val = (bias != NULL) ? __half2float(bias[o]) : 0.0f;
        const half* wrow = weight + o * IC;
        const half* irow = inp + b * IC;
        for (int i = 0; i < IC; i++) {
            val += __half2float(irow[i]) * __half2float(wrow[i]);
        }
        out[b * OC + o] = __float2half(val);
    }
}
"""
RUN = SIZES + (
    "  Device<half> y(M * N, 4), x(M * K), w(N * K, 2), b(N, 3); dim3 block(16, 16);\n"
    "  linear<<<dim3((M + 15) / 16, (N + 15) / 16), block>>>(y, x, w, b, M, K, N); y.show();"
)
BYTES = """
#include <cstdint>
__global__ void scaled(const TYPE* A, const TYPE* B, float* C, const float* scale, int M, int N, int K) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M || col >= N) return;
  int sum = 7;
  for (int k = 0; k < K; ++k) sum += LEFT * RIGHT;
  C[row * N + col] = sum * scale[col];
}
"""
RUN_BYTES = SIZES + (
    "  Device<TYPE> a(M * K), b(N * K, 2); Device<float> s(N, 5), c(M * N, 3);\n"
    "  dim3 block(16, 16), grid((N + 15) / 16, (M + 15) / 16);\n"
    "  scaled<<<grid, block>>>(a, b, c, s, M, N, K); c.show();"
)
HALVES = """
__global__ void summed(const __half* A, const __half* B, __half* C, int M, int N, int K) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M || col >= N) return;
  __half sum = BEGUN;
  for (int k = 0; k < K; ++k) ADDED;
  C[row * N + col] = sum;
}
"""
RUN_HALVES = SIZES + (
    "  Device<__half> a(M * K), b(N * K, 2), c(M * N, 3);\n"
    "  dim3 block(16, 16), grid((N + 15) / 16, (M + 15) / 16);\n"
    "  summed<<<grid, block>>>(a, b, c, M, N, K); c.show();"
)
PROGRAMS = {
    "bytes by rows": (
        BYTES.replace("TYPE", "signed char")
        .replace("LEFT", "(int)A[row * K + k]")
        .replace("RIGHT", "B[col * K + k]"),
        RUN_BYTES.replace("TYPE", "signed char"),
    ),
    "bytes without a sign by columns": (
        BYTES.replace("TYPE", "uint8_t")
        .replace("LEFT", "A[k * M + row]")
        .replace("RIGHT", "int(B[k * N + col])"),
        RUN_BYTES.replace("TYPE", "uint8_t"),
    ),
    "sums in half, fused": (
        HALVES.replace("BEGUN", "__float2half(0.0f)").replace(
            "ADDED", "sum = __hfma(A[row * K + k], B[k * N + col], sum)"
        ),
        RUN_HALVES,
    ),
    "sums in half, one call after the other": (
        HALVES.replace("BEGUN", "B[col]").replace(
            "ADDED", "sum = __hadd(sum, __hmul(A[row * K + k], B[col * K + k]))"
        ),
        RUN_HALVES,
    ),
    "a layer with weights by rows and a bias": (LINEAR, RUN),
    "bfloat16, scaled behind the loop, added to what is there": (
        """
__global__ void gemm(int m, int n, int k, float alpha, const __nv_bfloat16 *A, const __nv_bfloat16 *B, float beta,
                     float *C) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || col >= n) return;
  float acc = 0.f;
  for (int i = 0; i < k; ++i) {
    float a = __bfloat162float(A[row * k + i]);
    float b = static_cast<float>(B[i * n + col]);
    acc = acc + a * b;
  }
  C[row * n + col] = alpha * acc + beta * C[row * n + col];
}
""",
        SIZES + "  Device<__nv_bfloat16> a(M * K), b(K * N, 2); Device<float> c(M * N, 3);\n"
        "  dim3 block(16, 16), grid((N + 15) / 16, (M + 15) / 16);\n"
        "  gemm<<<grid, block>>>(M, N, K, 0.5f, a, b, 2.0f, c); c.show();",
    ),
    "a batch of transposed ones": (
        """
__global__ void scores(const half* Q, const half* K, float* S, int n, int d) {
  int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  int h = blockIdx.z;
  if (i >= n || j >= n) return;
  float sum = 0.0f;
  for (int c = 0; c < d; ++c) sum += (float)Q[(h * n + i) * d + c] * (float)K[(h * n + j) * d + c];
  S[(h * n + i) * n + j] = sum * rsqrtf(d);
}
""",
        SIZES + "  Device<half> q(2 * M * K), k(2 * M * K, 2); Device<float> s(2 * M * M, 3); (void)N;\n"
        "  scores<<<dim3((M + 7) / 8, (M + 7) / 8, 2), dim3(8, 8)>>>(q, k, s, M, K); s.show();",
    ),
}


#: What half rounds at each of 48 steps, of sums up to a hundred.
ROUNDED = {name: 2.0 for name in PROGRAMS if name.startswith("sums in half")}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled(2)
def test_products_stay_what_they_are(name: str) -> None:
    after = holds(
        "tensor-tile",
        program(*PROGRAMS[name]),
        (70, 150, 33),
        (16, 5, 48),
        relative=2e-3,
        absolute=ROUNDED.get(name, 1e-2),
    )
    assert "#include <mma.h>" in after and "mma_sync" in after


@pytest.mark.compiler
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled(2)
def test_nvcc_takes_them(name: str, tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text(rewritten("tensor-tile", program(*PROGRAMS[name]))[1])
    options = [*STANDARD, f"-I{DEVICE}", "-arch=sm_90", "-cubin"]
    command = ["nvcc", *options, "-o", str(tmp_path / "k.cubin"), str(file)]
    subprocess.run(command, check=True, capture_output=True)


REFUSED = {
    "multiplied in half": (
        LINEAR.replace("__half2float(irow[i]) * __half2float(wrow[i])", "__half2float(irow[i] * wrow[i])"),
        "",
    ),
    "scaled in the loop": (
        LINEAR.replace("__half2float(irow[i]) *", "2.0f * __half2float(irow[i]) *"),
        "more than",
    ),
    "a difference": (LINEAR.replace("val += ", "val -= "), "more than"),
    "added in half": (LINEAR.replace("float val", "half val").replace("__half2float(", "half("), ""),
    "bytes added up in float": (
        LINEAR.replace("const half* inp, const half* weight", "const char* inp, const char* weight")
        .replace("__half2float(irow[i])", "irow[i]")
        .replace("__half2float(wrow[i])", "wrow[i]"),
        "one int",
    ),
    "of floats": (LINEAR.replace("const half*", "const float*").replace("__half2float", "float"), "no half"),
    "one operand twice": (LINEAR.replace("__half2float(wrow[i])", "__half2float(irow[i])"), ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_left_alone(name: str) -> None:
    code, why = REFUSED[name]
    result, _ = rewritten("tensor-tile", program(code, RUN))
    assert not result.edits and why in result.refused
