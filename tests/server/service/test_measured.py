# SPDX-License-Identifier: Apache-2.0
"""Counters of a kernel steer the search: what is saturated, and how far the roof is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from warplens.service import measured
from warplens.service.measured import busy_of, counted_report, headroom_of, report_of
from warplens.service.profile_report import ProfileReport, profile_report
from warplens.service.report import FileReport, KernelReport, Report
from warplens.service.service import Service
from warplens_tools.arch.load import load_architecture
from warplens_tools.collect.ncu_csv import require_csv
from warplens_tools.collect.profiled import counter_evidence
from warplens_tools.errors import CancelledError, InputError
from warplens_tools.finding import Bottleneck
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.toolchain.locate import Tool, Toolchain

RAW = Path(__file__).parents[2] / "data/reports/saxpy_transpose.raw.csv"


@pytest.fixture(scope="module")
def profile() -> ProfileReport:
    launch = next(x for x in require_csv(RAW.read_text("utf-8"), name="raw") if "saxpy" in x.kernel)
    return profile_report(counter_evidence(launch, launches=1), load_architecture("sm_90"), report="")


def report(profile: ProfileReport | None) -> FileReport:
    bottleneck = Bottleneck(bound="memory", confidence="high", reason="")
    kernel = KernelReport("saxpy", "saxpy", 1, 2, 1, 1, bottleneck, None, profile=profile)
    return FileReport("k.cu", (kernel,), ())


def test_a_counted_kernel_says_what_is_busy_and_how_far_the_roof_is(profile: ProfileReport) -> None:
    busy = busy_of(report(profile), "saxpy")
    assert set(busy) == {"dram", "l2", "sm"} and 0 < busy["dram"] <= 1
    assert profile.roofline is not None
    nearest = profile.roofline.reaches[0]
    assert headroom_of(report(profile), "saxpy") == pytest.approx(max(1.0, 1 / nearest.share))


def test_a_kernel_that_was_not_counted_says_nothing(profile: ProfileReport) -> None:
    bare = msgspec.structs.replace(profile, roofline=None, metrics={})
    assert headroom_of(report(bare), "saxpy") is None
    for nothing in (report(None), report(profile)):
        name = "saxpy" if nothing.kernels[0].profile is None else "other"
        assert (busy_of(nothing, name), headroom_of(nothing, name)) == ({}, None)


def test_counters_are_collected_where_they_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: ProfileReport
) -> None:
    unit = tmp_path / "k.cu"
    unit.write_text("__global__ void saxpy(float* x) { x[0] = 1; }\nint main() {}\n")
    service = Service(tmp_path)
    answers: list[Report | Exception] = [
        Report(1, "", (report(profile),), ()),
        InputError("no rights"),
        CancelledError(""),
    ]

    def profiled(*_: object, **__: object) -> Report:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    ncu = Toolchain({"ncu": Tool("ncu", "/opt/ncu", "PATH", "")}, {})
    monkeypatch.setattr(measured, "profile_file", profiled)
    monkeypatch.setattr(measured, "resolve_toolchain", lambda: ncu)
    monkeypatch.setattr(measured, "present_gpus", lambda: ())
    assert report_of(service, unit, "sm_90", UNATTENDED).kernels[0].profile is None
    assert counted_report(service, unit, "saxpy", "sm_90", UNATTENDED) is None
    monkeypatch.setattr(measured, "present_gpus", lambda: (load_architecture("sm_90"),))
    said: list[str] = []
    counted = counted_report(service, unit, "saxpy", "sm_90", UNATTENDED)
    assert counted is not None and counted.kernels[0].profile == profile
    assert counted_report(service, unit, "saxpy", "sm_90", Task(lambda text, _: said.append(text))) is None
    assert "no counters: no rights" in said
    with pytest.raises(CancelledError):
        counted_report(service, unit, "saxpy", "sm_90", UNATTENDED)
