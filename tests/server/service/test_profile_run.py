# SPDX-License-Identifier: Apache-2.0
"""`profile` and `check --tier` where a card is, tried with what runs on one recorded."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from warplens.cli.main import run
from warplens.service import profile, profile_collect
from warplens.service.profile import ProfileOptions, check_measured, profile_file
from warplens.service.profile_collect import launch_timings
from warplens.service.report import FileReport, Report
from warplens.service.service import CheckOptions, Service
from warplens_tools.arch.load import load_architecture
from warplens_tools.collect.ncu import NcuRequest
from warplens_tools.collect.ncu_csv import require_csv
from warplens_tools.cuda.parse import parse
from warplens_tools.errors import InputError
from warplens_tools.evidence import (
    BinaryEvidence,
    CompiledKernel,
    Instruction,
    Resources,
    Tier,
    TimelineEvidence,
)
from warplens_tools.run.probe.records import SurveyedShape, read_records
from warplens_tools.text import SourceText

ROOT = Path(__file__).parents[3]
SURVEY = ROOT / "tests/server/measure/recorded/affine-survey.jsonl"
RAW = ROOT / "tests/data/reports/saxpy_transpose.raw.csv"
TIMELINE = TimelineEvidence("nsys 1", "NVIDIA H200", 2.0, 1.0, ())


def surveyed() -> tuple[SurveyedShape, ...]:
    """The kernels of a recorded survey."""
    return tuple(r for r in read_records(SURVEY) if isinstance(r, SurveyedShape))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose programs are compiled once for all tests."""
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture
def folder(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with the recorded programs, in which nothing was measured yet."""
    cache = workspace / "cache"
    shutil.rmtree(cache / "profiles", ignore_errors=True)
    for path in workspace.glob("*.*"):
        path.unlink()
    monkeypatch.setenv("WARPLENS_CACHE", str(cache))
    shutil.copy(ROOT / "tests/gpu/programs/affine.cu", workspace / "affine.cu")
    shutil.copy(ROOT / "tests/data/reports/saxpy_transpose.cu", workspace / "saxpy.cu")
    return workspace


@pytest.fixture
def card(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine with a card, whose runs are recorded ones; the list says what was run."""
    gpu = msgspec.structs.replace(load_architecture("sm_90"), present=True, uuid="GPU-test", driver="580")
    ran: list[str] = []
    monkeypatch.setattr(profile, "gpu_for", lambda *_: gpu)
    monkeypatch.setattr(profile, "machine_unknowns", list)
    monkeypatch.setattr(profile_collect, "probe_library", lambda *_, **__: folder / "key/probe.so")
    monkeypatch.setattr(profile_collect, "build_program", lambda *_, **__: folder / "program")

    def survey(*_: object) -> tuple[SurveyedShape, ...]:
        ran.append("timing")
        return surveyed()

    def counters(*_: object) -> object:
        ran.append("counters")
        return require_csv(RAW.read_text("utf-8"), name="raw")

    def timeline(*_: object) -> TimelineEvidence:
        ran.append("timeline")
        return TIMELINE

    monkeypatch.setattr(profile_collect, "survey", survey)
    monkeypatch.setattr(profile_collect, "_counters", counters)
    monkeypatch.setattr(profile_collect, "_timeline", timeline)
    return ran


def measured(path: Path, tier: Tier) -> FileReport:
    """One file up to a tier."""
    report = profile_file(Service(path.parent), path, ProfileOptions(tier=tier))
    return report.files[0]


def test_a_survey_gives_each_kernel_its_duration() -> None:
    timing = launch_timings(surveyed())["affine"]
    assert (timing.launches, timing.grid, timing.block) == (5, (4, 64, 1), (256, 1, 1))
    assert timing.low_ns <= timing.median_ns == 58592 <= timing.high_ns
    assert timing.share == 1.0


def test_timing_alone_runs_no_profiler(folder: Path, card: list[str]) -> None:
    file = measured(folder / "affine.cu", "timing")
    assert card == ["timing"]
    assert "timing" in file.tiers and "counters" not in file.tiers
    timing = next(k.timing for k in file.kernels if k.name == "affine")
    assert timing is not None and timing.median_ns == 58592
    assert measured(folder / "affine.cu", "timing") == file
    assert card == ["timing"], "what was timed before is not run again"


def test_counters_of_every_kernel_spare_the_timing_run(folder: Path, card: list[str]) -> None:
    file = measured(folder / "saxpy.cu", "counters")
    assert set(card) == {"counters"}
    assert all(k.profile is not None for k in file.kernels)
    card.clear()
    assert measured(folder / "saxpy.cu", "timeline").timeline == TIMELINE
    assert set(card) == {"counters", "timeline"}


@pytest.mark.usefixtures("card")
def test_where_counters_fail_the_durations_stand(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise InputError("the driver lets only administrators read counters", remedy="run as root")

    monkeypatch.setattr(profile_collect, "_counters", refused)
    report = profile_file(Service(folder), folder / "affine.cu", ProfileOptions(tier="counters"))
    assert any(k.timing is not None for k in report.files[0].kernels)
    assert any(u.remedy == "run as root" for u in report.unknown)


def test_a_header_is_profiled_through_the_unit_that_includes_it(folder: Path, card: list[str]) -> None:
    text = (folder / "affine.cu").read_text()
    at = text.index("__global__")
    end = text.index("int main")
    (folder / "kernels.cuh").write_text(text[at:end])
    (folder / "affine.cu").write_text(f'{text[:at]}#include "kernels.cuh"\n{text[end:]}')
    file = measured(folder / "kernels.cuh", "timing")
    assert card == ["timing"]
    assert next(k.timing for k in file.kernels if k.name == "affine") is not None
    (folder / "alone.cuh").write_text("__global__ void k() {}\n")
    report = profile_file(Service(folder), folder / "alone.cuh", ProfileOptions())
    assert any("no .cu file of the workspace includes it" in u.why for u in report.unknown)


def test_check_runs_programs_only_above_the_binary_tier(folder: Path, card: list[str]) -> None:
    below = check_measured(Service(folder), [folder], CheckOptions(tier="source"))
    assert not card and all(f.tiers == ("source",) for f in below.files)
    above = check_measured(Service(folder), [folder / "affine.cu"], CheckOptions(tier="timing"))
    assert card == ["timing"] and "timing" in above.files[0].tiers


def test_saving_a_file_runs_no_program_and_says_so(folder: Path, card: list[str]) -> None:
    (folder / "warplens.toml").write_text('tier = "counters"\n')
    report = Service(folder).check_file(folder / "affine.cu", CheckOptions())
    assert not card
    (said,) = [u for u in report.unknown if u.what == "counters tier of affine.cu"]
    assert "warplens profile affine.cu" in said.remedy


@pytest.mark.skipif(
    Path("/proc/driver/nvidia/version").exists(), reason="speaks of a machine without a driver"
)
@pytest.mark.parametrize("tier", ["timing", "counters", "timeline"])
def test_without_a_card_a_measured_tier_is_refused_with_its_remedy(
    folder: Path, tier: Tier, capfd: pytest.CaptureFixture[str]
) -> None:
    path = folder / "affine.cu"
    assert run(["check", str(path), "--tier", tier, "--format", "json"]) == 2
    report = msgspec.json.decode(capfd.readouterr().out, type=Report)
    assert tier not in report.files[0].tiers
    (said,) = [u for u in report.unknown if u.what == f"{tier} tier of affine.cu"]
    assert said.why == "there is no CUDA GPU in this machine"
    assert "--import" in said.remedy


@pytest.mark.parametrize(
    ("opcode", "operands", "asked"),
    [
        ("HGMMA", ("R24", "gdesc[UR8]", "R24"), {"tensor"}),
        ("REDG", ("desc[UR4][R2.64]", "R15"), {"atomics"}),
        ("LDC", ("R0", "c[0x3][R0]"), {"constants"}),
        ("LDC", ("R0", "c[0x0][0x28]"), set()),
        ("ATOMS", ("R3", "[R10]", "R2"), set()),
        ("FFMA", ("R0", "R1", "R2", "R3"), set()),
    ],
)
def test_counters_of_a_unit_are_asked_for_where_the_code_uses_it(
    opcode: str, operands: tuple[str, ...], asked: set[str]
) -> None:
    (kernel,) = parse(SourceText("__global__ void k(float *a) { *a = 1; }"), "k.cu").kernels
    code = (Instruction(0, opcode, (), operands),)
    compiled = CompiledKernel("k", "k", "k", "sm_90", Resources(8), code)
    binary = BinaryEvidence("k.cu", "sm_90", "nvcc", (), (compiled,), disassembled=True)
    request = profile_collect.ncu_request(binary, kernel)
    assert {n for n in ("tensor", "atomics", "constants") if getattr(request, n)} == asked
    assert profile_collect.ncu_request(None, kernel) == NcuRequest("k")
