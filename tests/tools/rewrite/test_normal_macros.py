# SPDX-License-Identifier: Apache-2.0
"""Index macros that rewrites would have to change are written out, and mean what they meant."""

from __future__ import annotations

import pytest
from tests.host_cuda import same_results
from tests.tools.rewrite.on_host import holds, program

from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.common.normal_forms import plainly
from warplens_tools.text import SourceText

MACROS = """
#define IDX(r, c) ((r) * width + (c))
#define HALF(v) (unsigned)(v) / 2
#define SQ(a) ((a) * (a))
"""
KERNEL = (
    MACROS
    + """
__global__ void down(const int* img, int* sum, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  if (x < width) {
    int s = 0;
    for (int y = 0; y < height; y++) {
      s += HALF(img[IDX(y, x)]) + SQ(x + 1);
      sum[IDX(y, x)] = s;
    }
  }
}
"""
)
MAIN = """
  int w = atoi(argv[1]), h = 9;
  Device<int> img(w * h), sum(w * h);
  down<<<(w + 31) / 32, 32>>>(img, sum, w, h);
  sum.show();
"""


def plain(text: str) -> str | None:
    """The text with its first kernel in the form that rewrites read."""
    source = SourceText(text)
    found = plainly(source, "k.cu", parse(source, "k.cu").kernels[0])
    return None if found is None else found.text


@pytest.mark.compiler
def test_macros_are_written_out_as_the_preprocessor_would() -> None:
    before = program(KERNEL, MAIN)
    after = plain(before)
    assert after is not None
    assert "sum[y * width + x] = s;" in after and "SQ(x + 1)" in after
    assert "(unsigned)img[y * width + x] / 2" in after or "(unsigned)(img[" in after
    same_results(before, after, "70", orders=(1,))


def test_a_macro_that_is_a_statement_stays() -> None:
    text = KERNEL.replace("int s = 0;", "int s = 0; CHECK(s);").replace(
        "#define SQ", "#define CHECK(a) (void)(a)\n#define SQ"
    )
    after = plain(text)
    assert after is not None and "CHECK(s);" in after


@pytest.mark.compiler
def test_columns_that_an_index_macro_walks_are_scanned() -> None:
    sums = KERNEL.replace("HALF(img[IDX(y, x)]) + SQ(x + 1)", "img[IDX(y, x)]")
    after = holds("scan-columns", program(sums, MAIN), (70,), (33,))
    assert "total = total +" in after
