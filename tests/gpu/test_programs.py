# SPDX-License-Identifier: Apache-2.0
"""Programs from different fields: each builds, and on a card is measured against itself or refused by name."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest
from tests.gpu.catalogue import BESIDE, PROGRAMS, Program, catalogue
from tests.kept import digest_of, kept, version_of

from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate
from warplens_tools import process, run
from warplens_tools import toolchain as toolchains
from warplens_tools.cuda.parse import parse
from warplens_tools.errors import InputError
from warplens_tools.run.build import build_program
from warplens_tools.text import SourceText
from warplens_tools.toolchain.locate import Toolchain, resolve_toolchain

ALL = catalogue()
#: Each file once, though it may be started in several ways.
BUILDS = tuple({program.name: program for program in ALL}.values())


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    found = resolve_toolchain()
    if found.find("nvcc") is None:
        pytest.skip("no nvcc")
    return found


def test_every_program_is_listed_and_they_are_many() -> None:
    folders = {path.name for path in PROGRAMS.iterdir() if path.is_dir()}
    assert {program.name for program in ALL} == {
        path.stem for path in PROGRAMS.glob("*.cu")
    } - BESIDE | folders
    assert len(BUILDS) >= 30
    assert len({program.name for program in ALL if program.hostile}) >= 8
    assert len({program.field for program in ALL}) >= 20
    assert all(program.said for program in ALL if program.states == ("refused",))


@pytest.mark.parametrize("program", ALL, ids=lambda p: p.title)
def test_its_kernel_is_seen_in_the_source(program: Program) -> None:
    work = program.workload()
    model = parse(SourceText.read(Path(work.source)), work.source)
    kernels = {kernel.qualified_name for kernel in model.kernels}
    unit = parse(SourceText.read(Path(work.unit)), work.unit)
    assert kernels and (unit.has_main or work.build)
    assert program.kernel in {*kernels, "", "other"}


#: Built where there is no card, too: what is built in a way of its own, and one file as nvcc takes it. The other plain
#: files are built by the same command, on a card before they are measured.
TRIED = tuple(p for p in BUILDS if p.unit or p.flags or p.name == "product")


@pytest.mark.compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [p if p in TRIED else pytest.param(p, marks=pytest.mark.thorough) for p in BUILDS],
    ids=lambda p: p.name,
)
@pytest.mark.sampled(2)
def test_it_builds(program: Program, toolchain: Toolchain, tmp_path: Path) -> None:
    _require(program)
    nvcc = toolchain.find("nvcc")
    assert nvcc is not None
    work = program.workload()
    source = Path(work.unit).parent if program.unit else Path(work.unit)
    builder = [Path(module.__file__ or "").parent for module in (run, toolchains, process)]
    rests_on = digest_of(version_of(nvcc.path), repr(work), source, *sorted(PROGRAMS.glob("*.*h")), *builder)

    def make(out: Path) -> None:
        built = build_program(work, toolchain=toolchain, arch="sm_90", folder=tmp_path)
        shutil.copyfile(built, out)

    assert kept(program.name, rests_on, make).read_bytes().startswith(b"\x7fELF")


def _require(program: Program) -> None:
    if program.needs and importlib.util.find_spec(program.needs) is None:
        pytest.skip(f"no {program.needs}")


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("program", ALL, ids=lambda p: p.title)
def test_it_is_measured_or_refused(program: Program) -> None:
    _require(program)
    settings = MeasureSettings(measure_identical=True)
    try:
        with Judge(program.workload(), kernel=program.kernel, settings=settings) as judge:
            (verdict,) = judge.judge([Candidate("same", "", "", ())])
        state, reason = verdict.state, verdict.reason
    except InputError as error:
        state, reason = "refused", str(error)
    assert state in program.states, reason
    assert state != "refused" or program.said in reason
