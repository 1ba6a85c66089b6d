# SPDX-License-Identifier: Apache-2.0
"""Products of half and bfloat16 on tensor cores, which the host simulates a matrix at a time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
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
PROGRAMS = {
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


@pytest.mark.parametrize("name", PROGRAMS)
def test_products_stay_what_they_are(name: str) -> None:
    after = holds(
        "tensor-tile", program(*PROGRAMS[name]), (70, 150, 33), (16, 5, 48), relative=2e-3, absolute=1e-2
    )
    assert "#include <mma.h>" in after and "mma_sync" in after


@pytest.mark.compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_nvcc_takes_them(name: str, tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text(rewritten("tensor-tile", program(*PROGRAMS[name]))[1])
    command = ["nvcc", "-arch=sm_90", "-cubin", "-o", str(tmp_path / "k.cubin"), str(file)]
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
    "of floats": (LINEAR.replace("const half*", "const float*").replace("__half2float", "float"), "no half"),
    "one operand twice": (LINEAR.replace("__half2float(wrow[i])", "__half2float(irow[i])"), ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_left_alone(name: str) -> None:
    code, why = REFUSED[name]
    result, _ = rewritten("tensor-tile", program(code, RUN))
    assert not result.edits and why in result.refused
