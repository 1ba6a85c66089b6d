# SPDX-License-Identifier: Apache-2.0
"""Small whole programs around a kernel, run on the CPU before and after a rewrite."""

from __future__ import annotations

from tests.host_cuda import same_results

from warplens_tools.cuda.parse import parse
from warplens_tools.idioms.registry import idiom
from warplens_tools.rewrite.base import RewriteResult, Target
from warplens_tools.rewrite.registry import rewrite
from warplens_tools.text import SourceText

PRELUDE = """
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>

#include <device.h>
"""


def program(code: str, main: str) -> str:
    """A program of a kernel, its launching functions, and the body of `main`, in which argv are sizes."""
    return f"{PRELUDE}\n{code}\nint main(int argc, char** argv) {{\n  (void)argc;\n{main}\n  return 0;\n}}\n"


def rewritten(slug: str, text: str, target: Target | None = None) -> tuple[RewriteResult, str]:
    """The text after a rewrite of its first kernel, or an idiom there."""
    source = SourceText(text)
    model = parse(source, "k.cu")
    found = rewrite(slug) or idiom(slug)
    assert found is not None
    result = found.apply(source, model, model.kernels[0], target or Target())
    return result, source.apply(list(result.edits)).text


def holds(slug: str, text: str, *runs: tuple[int, ...], relative: float = 0.0, absolute: float = 0.0) -> str:
    """The text after the rewrite, which applies, and prints the same in every run."""
    result, after = rewritten(slug, text)
    assert result.edits, result.refused
    for sizes in runs:
        same_results(text, after, *map(str, sizes), orders=(1,), relative=relative, absolute=absolute)
    return after
