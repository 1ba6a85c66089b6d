# SPDX-License-Identifier: Apache-2.0
"""Launch specs in the service: found in comments and settings, written but never over one, judged as any program."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from warplens.cli.main import run
from warplens.measure.build.candidates import Builder, Built
from warplens.measure.build.own_geometry import as_written
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate, Verdict
from warplens.read_settings import load
from warplens.service.specs import specs_of
from warplens.service.workloads import require_main, workload_of
from warplens_tools.errors import InputError
from warplens_tools.run.build import Overlay, build_program
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, TextEdit
from warplens_tools.toolchain.locate import resolve_toolchain

CODE = """#include <cstdio>
#include "factor.h"
constexpr int kBlock = 128;
static const int said = std::puts("as it is");
template <typename T>
__global__ void scale(T* x, int n)
{
    int i = blockIdx.x * kBlock + threadIdx.x;
    if (i < n) x[i] = FACTOR * x[i];
}
void run(float* x, int count) { scale<float><<<(count + kBlock - 1) / kBlock, kBlock>>>(x, count); }
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel without a program."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "k.cu").write_text(CODE)
    (folder / "factor.h").write_text("#define FACTOR 2\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path / "cache"))
    return folder / "k.cu"


def workload(file: Path) -> Workload:
    loaded = load(file.parent)
    require_main(file, file, loaded)
    return workload_of(file, file, loaded)


def test_a_first_spec_is_written_once(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="has no main") as caught:
        workload(file)
    assert "warplens spec k.cu" in caught.value.remedy
    assert run(["spec", "k.cu", "--diff"]) == 0
    assert "+/* warplens: launch\n" in capsys.readouterr().out and file.read_text() == CODE
    assert run(["spec", "k.cu"]) == 0
    assert capsys.readouterr().out == "wrote a launch spec for scale in k.cu\n"
    written = file.read_text()
    assert re.sub(r"/\* warplens: launch.*?\*/\n", "", written, flags=re.DOTALL) == CODE
    (spec,) = specs_of(file, load(file.parent))
    assert spec.spec.template == ("float",) and spec.spec.block == "kBlock"
    assert run(["spec", "k.cu", "--kernel", "scale"]) == 2
    assert "scale has a launch spec already, at k.cu:5" in capsys.readouterr().err
    assert run(["spec", "k.cu"]) == 2 and file.read_text() == written


def test_a_spec_in_the_settings_counts_as_one_in_a_comment(file: Path) -> None:
    table = """[[launch]]
source = "*.cu"
template = ["float"]
shapes = [{ n = 64 }]
arguments.x = { count = "n" }
"""
    (file.parent / "warplens.toml").write_text(table)
    made = workload(file)
    assert made.generated and made.source == str(file) and Path(made.unit).name == "launch_k.cu"
    assert not made.every_shape and workload(file).unit == made.unit
    (file.parent / "warplens.toml").write_text(table + '[[program]]\nsource = "k.cu"\ncommand = "./mine"\n')
    assert not workload(file).generated
    (file.parent / "warplens.toml").write_text(table.replace("count", "cuont"))
    with pytest.raises(InputError, match="cuont"):
        workload(file)
    (file.parent / "warplens.toml").write_text(table)
    assert run(["spec", "k.cu"]) == 2
    file.write_text(
        CODE.replace("template <typename", "// warplens: launch\n// grid = 1\ntemplate <typename")
    )
    with pytest.raises(InputError, match="another launch spec of scale"):
        workload(file)


@pytest.mark.compiler
@pytest.mark.thorough
def test_edited_files_are_built_and_judged_through_the_generated_program(file: Path, tmp_path: Path) -> None:
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None:
        pytest.skip("no nvcc")
    assert run(["spec", "k.cu"]) == 0
    made, text = workload(file), SourceText.read(file)
    assert made.every_shape

    def edited(old: str, new: str) -> Candidate:
        start = text.text.index(old)
        edit = TextEdit(text.span(start, start + len(old)), new)
        return Candidate(new, str(file), "scale", (edit,), block=(1, 1, 1))

    overlay = Overlay(str(file), text.text.replace("as it is", "edited"))
    program = build_program(made, toolchain=toolchain, arch="sm_90", folder=tmp_path / "p", overlay=overlay)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("edited") and "as it is" not in done.stdout
    settings = MeasureSettings(build_jobs=2)
    builder = Builder(made, toolchain=toolchain, arch="sm_90", folder=tmp_path / "b", settings=settings)
    baseline = builder.baseline()
    (kernel,) = baseline.evidence.kernels
    device, size, host = (
        as_written(c, builder, "scale")
        for c in (
            edited("FACTOR * x[i]", "x[i] + x[i]"),
            edited("kBlock = 128", "kBlock = 256"),
            edited("as it is", "no"),
        )
    )
    assert not device.asks_program and size.asks_program and device.block is None
    heard: dict[str, Built | Verdict] = {}

    def take(one: Built | Verdict) -> None:
        heard[one.candidate if isinstance(one, Verdict) else one.candidate.id] = one

    builder.build_all([device, size, host], baseline, kernel, program.read_bytes(), on_done=take)
    refused = heard["no"]
    assert isinstance(refused, Verdict) and refused.state == "refused"
    for candidate in (device, size):
        built = heard[candidate.id]
        assert isinstance(built, Built), built
