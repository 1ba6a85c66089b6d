# SPDX-License-Identifier: Apache-2.0
"""Stencils and small filters whose threads work out several outputs of a column."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SIZES = "  int w = atoi(argv[1]), h = atoi(argv[2]);\n"
MEDIAN = """
__global__ void median(const unsigned char *input, unsigned char *output, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x == 0 || y == 0 || x >= width - 1 || y >= height - 1) return;
    unsigned char window[9];
    int k = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            window[k++] = input[(y + dy) * width + (x + dx)];
    for (int i = 0; i < 9; i++)
        for (int j = i + 1; j < 9; j++)
            if (window[i] > window[j]) {
                unsigned char tmp = window[i];
                window[i] = window[j];
                window[j] = tmp;
            }
    output[y * width + x] = window[4];
}
"""
RUN = SIZES + (
    "  Device<unsigned char> a(w * h), b(w * h, 2); cudaMemset(b.data, 0, w * h);\n"
    "  dim3 t(16, 8), g((w + t.x - 1) / t.x, (h + t.y - 1) / t.y); median<<<g, t>>>(a, b, w, h); b.show();"
)
PROGRAMS = {
    "a median of nine": (MEDIAN, RUN),
    "heat in space, a macro for the index": (
        """
#define AT(i, j, k) (((k) * ny + (j)) * nx + (i))
__global__ void heat(int nx, int ny, int nz, float f, const float* in, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    int k = blockIdx.z * blockDim.z + threadIdx.z;
    if (i > 0 && i < nx - 1 && j > 0 && j < ny - 1 && k > 0 && k < nz - 1) {
        int at = AT(i, j, k);
        float sum = in[AT(i, j, k - 1)] + in[AT(i, j, k + 1)] + in[at - 1] + in[at + 1] + in[at - nx] + in[at + nx];
        out[at] = in[at] + f * (sum - 6 * in[at]);
    }
}
""",
        SIZES + "  Device<float> a(w * h * 9), b(w * h * 9, 2);\n"
        "  dim3 block(8, 8, 4), grid((w + 7) / 8, (h + 7) / 8, (9 + 3) / 4);\n"
        "  heat<<<grid, block>>>(w, h, 9, 0.125f, a, b); b.show();",
    ),
    "a grid by a shift, and by a choice": (
        """
__global__ void below(int w, int h, const float* cur, float* next) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h - 1) return;
    next[y * w + x] = cur[y * w + x] + cur[(y + 1) * w + x];
}
""",
        SIZES + "  Device<float> a(w * h), b(w * h, 2);\n"
        "  below<<<dim3((w + 31) >> 5, (h + 3) >> 2), dim3(32, 4)>>>(w, h, a, b);\n"
        "  below<<<dim3((w + 31) >> 5, h ? (h + 3) / 4 : 1), dim3(32, 4)>>>(w, h, a, b); b.show();",
    ),
    "sizes in a structure, axes declared together": (
        """
struct Grid { int nx, ny; };
__global__ void smooth(Grid g, const float* cur, float* next) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int pitch = g.nx;
    if (x < g.nx && y < g.ny) {
        if (x == 0) { next[y * pitch] = 1.0f; return; }
        next[y * pitch + x] = cur[y * pitch + x] - cur[y * pitch + x - 1];
    }
}
""",
        SIZES + "  Grid g; g.nx = w; g.ny = h; Device<float> a(w * h), b(w * h, 2);\n"
        "  smooth<<<dim3((w + 31) / 32, (h + 3) / 4), dim3(32, 4)>>>(g, a, b); b.show();",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_columns_are_walked(name: str) -> None:
    after = holds("march-outputs", program(*PROGRAMS[name]), (37, 21), (16, 8))
    assert "kOutputs" in after and "__restrict__" in after


REFUSED = {
    "no limit": (MEDIAN.replace(" || y >= height - 1", ""), "nothing limits"),
    "a long loop": (MEDIAN.replace("dy <= 1", "dy <= width"), "too long"),
    "a return in a loop": (MEDIAN.replace("unsigned char tmp = window[i];", "return;"), "inside a loop"),
    "the row of its block": (MEDIAN.replace("window[4]", "window[threadIdx.y % 9]"), "beside its number"),
    "a counter": (MEDIAN.replace("output[y", "atomicAdd((int*)output, 1); output[y"), "counted up"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_left_alone(name: str) -> None:
    code, why = REFUSED[name]
    result, _ = rewritten("march-outputs", program(code, RUN))
    assert not result.edits and why in result.refused
