# SPDX-License-Identifier: Apache-2.0
"""Transposes and their like through a shared tile."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

MN = "  int w = atoi(argv[1]), h = atoi(argv[2]);\n"
PLAIN = """
template <typename T>
__global__ void transposeNaive(T* odata, const T* idata, int width, int height) {
    int xIndex = blockIdx.x * blockDim.x + threadIdx.x;
    int yIndex = blockIdx.y * blockDim.y + threadIdx.y;
    if (xIndex < width && yIndex < height) {
        int index_in = xIndex + width * yIndex;
        int index_out = yIndex + height * xIndex;
        odata[index_out] = idata[index_in];
    }
}
void run(float* o, const float* i, int w, int h) {
    dim3 threads(16, 16);
    dim3 blocks((w + 15) / 16, (h + 15) / 16);
    transposeNaive<float><<<blocks, threads>>>(o, i, w, h);
}
"""
PROGRAMS = {
    "indices in variables, a template": (
        PLAIN,
        MN + "  Device<float> i(w * h), o(w * h, 2); run(o, i, w, h); o.show();",
    ),
    "lanes along the columns that are read, batched, scaled": (
        """
#define IDX2C(i, j, ld) ((j) * (ld) + (i))
__global__ void turn(const double* __restrict__ a, double* b, unsigned n, unsigned m, double alpha) {
  const unsigned j = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned i = blockIdx.y * blockDim.y + threadIdx.y;
  const size_t base = (size_t)blockIdx.z * n * m;
  if (i >= n || j >= m) return;
  double v = a[base + IDX2C(i, j, n)];
  b[base + i * m + j] = alpha * v;
}
""",
        MN + "  Device<double> a(2 * w * h), b(2 * w * h, 2);\n"
        "  dim3 t(32, 8), g((w + 31) / 32, (h + 7) / 8, 2); turn<<<g, t>>>(a, b, h, w, 1.5); b.show();",
    ),
    "bytes to floats": (
        """
__global__ void to_planes(const unsigned char* image, float* columns, int width, int height) {
  int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  if (row < height && col < width) columns[col * height + row] = image[row * width + col] / 255.0f;
}
""",
        MN + "  Device<unsigned char> i(w * h); Device<float> o(w * h, 2);\n"
        "  to_planes<<<dim3((w + 15) / 16, (h + 15) / 16), dim3(16, 16)>>>(i, o, w, h); o.show();",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_data_is_turned_in_a_tile(name: str) -> None:
    after = holds("transpose-tile", program(*PROGRAMS[name]), (65, 33), (7, 100))
    assert "__shared__" in after
    assert rewritten("transpose-tile", after)[0].refused


REFUSED = {
    "a copy": PLAIN.replace("yIndex + height * xIndex", "xIndex + width * yIndex"),
    "two stores": PLAIN.replace("        odata[", "        odata[0] = 1; odata["),
    "no launch": PLAIN[: PLAIN.index("void run")],
    "an atomic": PLAIN.replace("idata[index_in]", "atomicAdd(&odata[0], idata[index_in])"),
    "threads told apart": PLAIN.replace("idata[index_in]", "idata[index_in] + threadIdx.x"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_transpose_is_left_alone(name: str) -> None:
    assert rewritten("transpose-tile", REFUSED[name])[0].refused
