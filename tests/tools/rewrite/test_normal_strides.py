# SPDX-License-Identifier: Apache-2.0
"""Threads that stride over their outputs by the grid, with an output each, for rewrites that read no other form."""

from __future__ import annotations

import pytest
from tests.host_cuda import same_results
from tests.tools.rewrite.on_host import holds, program

from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.common.normal_strides import an_output_each
from warplens_tools.text import SourceText

UPSAMPLE = """
__global__ void upsample(const float* in, float* out, int H, int W, int C) {
  int total = 4 * H * W * C;
  const int stride = blockDim.x * gridDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += stride) {
    int c = i % C;
    int x = (i / C) % (2 * W);
    int y = i / (C * 2 * W);
    out[i] = in[((y / 2) * W + x / 2) * C + c];
  }
}
"""
MAIN = """
  int H = 5, W = atoi(argv[1]), C = atoi(argv[2]);
  Device<float> a(H * W * C), b(4 * H * W * C, 3);
  int block = 128, blocks = (H * W * C + block - 1) / block;
  if (blocks > 3) blocks = 3;
  upsample<<<blocks, block>>>(a, b, H, W, C); b.show();
"""


def single(text: str) -> str | None:
    """The text with an output for each thread of its first kernel."""
    source = SourceText(text)
    model = parse(source, "k.cu")
    found = an_output_each(source, model, model.kernels[0])
    return None if found is None else found.text


@pytest.mark.compiler
def test_each_thread_has_an_output_and_the_grid_has_all() -> None:
    before = program(UPSAMPLE, MAIN)
    after = single(before)
    assert after is not None
    assert "if (i < total) {" in after and "stride" not in after
    assert "<<<((4 * H * W * C) + block - 1) / block, block>>>" in after
    same_results(before, after, "7", "16", orders=(1,))


@pytest.mark.compiler
def test_indices_of_a_stride_come_from_the_launch() -> None:
    after = holds("index-into-axes", program(UPSAMPLE, MAIN), (7, 40), (3, 16))
    assert "gridDim" not in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int total =", "float sum = 0; int total ="),
        ("int c = i % C;", "int c = i % C; if (c > 3) continue;"),
        ("int c = i % C;", "int c = i % C; total -= c;"),
        ("int c = i % C;", "int c = i % C; __syncwarp();"),
        ("i += stride", "i += stride + 1"),
        ("i += stride", "i += 2 * stride"),
        ("int total = 4 * H * W * C;", "int total = (int)in[0];"),
        ("<<<blocks, block>>>", "<<<blocks, dim3(block, 2)>>>"),
    ],
)
def test_other_strides_stay(old: str, new: str) -> None:
    text = program(UPSAMPLE, MAIN).replace(old, new)
    if "sum" in new:
        text = text.replace("out[i] =", "sum += 1; out[i] = sum *")
    assert single(text) is None
