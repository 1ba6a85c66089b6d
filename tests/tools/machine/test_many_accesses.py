# SPDX-License-Identifier: Apache-2.0
"""A kernel with thousands of accesses takes time in proportion, and says what was left out."""

from __future__ import annotations

import time

import pytest

from warplens_tools import kernel_code
from warplens_tools.analysis import analyse_file
from warplens_tools.arch.load import load_gpu
from warplens_tools.cuda.parse import parse
from warplens_tools.micro.registry import all_tools
from warplens_tools.text import SourceText

LINE = "v{k} = x[i * {s} + {k}] * s[threadIdx.x + {b}]; int q{k} = i / (n + {k}); y[q{k} + {k}] = v{k};\n"


def kernel(lines: int) -> SourceText:
    body = "".join("float " + LINE.format(k=k, s=k % 7 + 1, b=k % 32) for k in range(lines))
    return SourceText(
        "__global__ void k(float* y, const float* x, int n) {\n__shared__ float s[512];\n"
        f"for (int i = threadIdx.x; i < n; i += blockDim.x) {{\n{body}}}\n}}\n"
        "void run(float* y, const float* x, int n) { k<<<n / 256, 256>>>(y, x, n); }\n"
    )


def taken(lines: int) -> tuple[float, int]:
    """Processor seconds of the source tier, and accesses left out."""
    text, gpu = kernel(lines), load_gpu("sm_90")
    started = time.process_time()
    (analysis,) = analyse_file(parse(text, "k.cu"), text, gpu, {}, all_tools())
    return time.process_time() - started, analysis.left_out


@pytest.mark.thorough
def test_time_grows_with_the_accesses_and_no_faster() -> None:
    taken(10)
    few, many = taken(150), taken(600)
    assert many[0] < 4 * 2 * few[0]
    assert few[1] == many[1] == 0


def test_a_limit_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel_code.MAX_ACCESSES >= 3 * 600
    monkeypatch.setattr(kernel_code, "MAX_ACCESSES", 90)
    assert taken(40)[1] == 3 * 40 - 90
