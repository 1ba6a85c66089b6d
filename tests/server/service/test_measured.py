# SPDX-License-Identifier: Apache-2.0
"""Counters of a kernel steer the search: what is saturated, and how far the roof is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from warplens.service import measured
from warplens.service.measured import (
    Launched,
    busy_of,
    counted_report,
    headroom_of,
    report_of,
    version_report,
)
from warplens.service.profile_report import ProfileReport, profile_report
from warplens.service.report import FileReport, KernelReport, Report
from warplens.service.service import Service
from warplens_tools.arch.load import load_architecture
from warplens_tools.collect.ncu_csv import require_csv
from warplens_tools.collect.profiled import counter_evidence
from warplens_tools.errors import CancelledError, InputError
from warplens_tools.evidence import LaunchTiming
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


#: Whose launch only a run tells.
SCALED = """__global__ void scale(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < n; ++k) x[i] = x[i] * 1.5f + 1.0f;
}
int main(int argc, char** argv) {
    float* x;
    cudaMalloc(&x, 1 << 20);
    scale<<<atoi(argv[1]), atoi(argv[2])>>>(x, atoi(argv[3]));
}
"""


def launched(blocks: int) -> Launched:
    timing = LaunchTiming("the judge", 1, (blocks, 1, 1), (128, 1, 1), 0, 1e6, 1e6, 1e6)
    return Launched(
        "scale", timing, msgspec.structs.replace(load_architecture("sm_90"), name="the judge's card")
    )


def test_a_version_is_judged_as_it_was_launched(tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text(SCALED)
    service, version = Service(tmp_path), SCALED.replace("1.5f", "2.5f")

    def seen(how: Launched | None, text: str = version) -> FileReport:
        return version_report(service, file, file, "", UNATTENDED, text, how)

    few, many, untold = seen(launched(64)), seen(launched(4096)), seen(None)
    assert few.tiers == ("source", "binary", "timing") and untold.tiers == ("source", "binary")
    (kernel,) = few.kernels
    assert kernel.bottleneck.bound == "latency"
    assert "256 warps for the 528 schedulers of the judge's card" in kernel.bottleneck.reason
    assert any("stay idle" in finding.message for finding in few.findings)
    for other in (many, untold):
        assert "schedulers" not in other.kernels[0].bottleneck.reason
        assert not any("stay idle" in finding.message for finding in other.findings)
    # the file itself is not touched, and what does not compile is judged by its text and its time
    assert file.read_text() == SCALED
    assert seen(launched(64), version.replace("1.0f", "missing")).tiers == ("source", "timing")


def test_a_version_that_no_unit_holds_is_judged_by_its_text(tmp_path: Path) -> None:
    header, unit = tmp_path / "k.cuh", tmp_path / "main.cu"
    header.write_text(SCALED.split("int main")[0])
    unit.write_text('#include "k.cuh"\nint main() {}\n')
    text = header.read_text()
    report = version_report(Service(tmp_path), header, unit, "", UNATTENDED, text, launched(64))
    assert report.tiers == ("source",)
    heavy = f"#include <cute/tensor.hpp>\n{text}"
    assert version_report(Service(tmp_path), unit, unit, "", UNATTENDED, heavy, None).tiers == ("source",)
