# SPDX-License-Identifier: Apache-2.0
"""Idioms: their pages are their samples, they refuse what they do not recognise, and what they write compiles."""

from __future__ import annotations

import pkgutil
import re
import subprocess
from pathlib import Path

import pytest

from warplens_tools import idioms as package
from warplens_tools.cuda.parse import parse
from warplens_tools.idioms.registry import IDIOMS
from warplens_tools.rewrite.base import EVERYWHERE, Rewrite, RewriteResult
from warplens_tools.rewrite.registry import REWRITES
from warplens_tools.text import SourceText

FENCE = re.compile(r"```cuda\n(.*?)```", re.DOTALL)


def page(of: Rewrite) -> str:
    module = __import__(of.apply.__module__, fromlist=["__doc__"])
    return module.__doc__ or ""


def run(of: Rewrite, text: str) -> tuple[RewriteResult, str]:
    source = SourceText(text)
    model = parse(source, "k.cu")
    result = of.apply(source, model, model.kernels[0], EVERYWHERE)
    assert bool(result.edits) != bool(result.refused)
    return result, source.apply(list(result.edits)).text


def test_the_registry_lists_the_folder() -> None:
    found = {m.name for m in pkgutil.iter_modules(package.__path__)} - {"registry", "common"}
    assert {r.slug.replace("-", "_") for r in IDIOMS} == found
    assert {r.apply.__module__.rsplit(".", 1)[-1] for r in IDIOMS} == found


def test_an_idiom_is_not_named_as_a_rewrite() -> None:
    assert not {r.slug for r in IDIOMS} & {r.slug for r in REWRITES}


@pytest.mark.parametrize("of", IDIOMS, ids=lambda r: r.slug)
def test_a_page_holds_its_sample(of: Rewrite) -> None:
    before, after = FENCE.findall(page(of))
    assert page(of).startswith(of.slug)
    assert run(of, before)[1] == after


@pytest.mark.parametrize("of", IDIOMS, ids=lambda r: r.slug)
def test_an_idiom_is_written_once(of: Rewrite) -> None:
    after = FENCE.findall(page(of))[1]
    result, again = run(of, after)
    assert again == after
    assert result.refused


@pytest.mark.parametrize("of", IDIOMS, ids=lambda r: r.slug)
@pytest.mark.parametrize(
    "text",
    [
        "#define DEF(name) __global__ void name(float* a, float* b) { a[0] = b[0]; }\nDEF(k)\n",
        "__global__ void k(float* a, float* b) { __shared__ float t[32][32]; t[0][ = 1; }\n",
        "__global__ void k() {}\n",
        "__global__ void k(float* a, int n) { int i = threadIdx.x; while (n > 0) { a[i] += n; n = n / 2; } }\n"
        "void run(float* a) { k<<<1, 32>>>(a, 7); }\n",
    ],
)
def test_what_is_no_such_computation_is_refused(of: Rewrite, text: str) -> None:
    assert run(of, text)[0].refused


@pytest.mark.parametrize("of", IDIOMS, ids=lambda r: r.slug)
def test_the_constants_of_a_sample_are_those_that_may_be_tuned(of: Rewrite) -> None:
    """Each constant with a number has values to try, of which the sample's is one, or must stay as it is."""
    after = FENCE.findall(page(of))[1]
    brought = dict(re.findall(r"constexpr int (k\w+) = (\d+);", after))
    assert any(of.ranges[name] for name in brought)
    assert all(int(value) in of.ranges[name] for name, value in brought.items() if of.ranges[name])


@pytest.mark.compiler
def test_samples_compile(tmp_path: Path) -> None:
    parts = ["#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuda_pipeline.h>\n#include <mma.h>\n"]
    parts += [f"namespace s{at} {{\n{FENCE.findall(page(of))[1]}\n}}\n" for at, of in enumerate(IDIOMS)]
    unit = tmp_path / "all.cu"
    unit.write_text("".join(parts))
    command = [
        "nvcc",
        "-cubin",
        "-arch=sm_90",
        "-Xptxas",
        "-O0",
        "-o",
        str(tmp_path / "all.cubin"),
        str(unit),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[:4000]
