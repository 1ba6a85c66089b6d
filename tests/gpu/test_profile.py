# SPDX-License-Identifier: Apache-2.0
"""On a card whose counters are readable: runs, not recordings."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from warplens.service.profile import ProfileOptions, profile_file
from warplens.service.report import Report
from warplens.service.service import Service
from warplens_tools.arch.ceilings import repeatability
from warplens_tools.arch.nvml import gpu_state
from warplens_tools.collect.calibrate import calibrate, device_at
from warplens_tools.toolchain.locate import Toolchain, resolve_toolchain

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parents[2]
#: Set by the host's processor and its load, not by the card.
#: Atomics of all SMs on few megabytes of L2 vary with where the memory lies.
HOST_BOUND = {
    "atomic",
    "launch_period",
    "launch_round_trip",
    "host_to_device_pageable",
    "device_to_host_pageable",
}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "transpose.cu"
    shutil.copy(ROOT / "examples/first/transpose.cu", path)
    return path


def profiled(path: Path) -> Report:
    return profile_file(Service(path.parent), path, ProfileOptions())


def test_a_run_measures_and_an_unchanged_one_collects_nothing(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = profiled(program)
    (kernel,) = report.files[0].kernels
    assert kernel.profile is not None, report.unknown
    assert kernel.profile.lines, "stall samples stand on lines"
    assert kernel.profile.passes is not None
    assert kernel.profile.passes <= 38 / 3
    assert kernel.bottleneck.measured is not None

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("it was profiled before")

    monkeypatch.setattr("warplens.service.profile_collect.collect_counters", forbidden)
    monkeypatch.setattr("warplens.service.profile_collect.build_program", forbidden)
    again = profiled(program)
    assert again.files[0].kernels[0].profile == kernel.profile


def test_a_kernel_that_is_never_launched_is_said(program: Path) -> None:
    program.write_text(program.read_text().replace("i < 20", "i < 0"))
    report = profiled(program)
    assert report.files[0].kernels[0].profile is None
    assert any("launched transpose" in u.why for u in report.unknown), report.unknown


def test_ceilings_of_the_card_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path))
    runs = [calibrate(toolchain=resolve_toolchain()) for _ in range(2)]
    differing = {name: share for name, share in repeatability(runs).items() if share > 0.03}
    assert set(differing) <= HOST_BOUND, differing


def test_nvml_reads_the_card() -> None:
    card = device_at(0)
    state = gpu_state(card.uuid)
    assert card.uuid.startswith("GPU-")
    assert state.power_w is not None
    assert state.sm_clock_mhz is not None


def test_durations_alone_take_no_profiler(program: Path) -> None:
    report = profile_file(Service(program.parent), program, ProfileOptions(tier="timing"))
    (kernel,) = report.files[0].kernels
    assert kernel.timing is not None, report.unknown
    assert kernel.profile is None
    assert kernel.timing.low_ns <= kernel.timing.median_ns <= kernel.timing.high_ns


def test_without_nsys_the_probe_traces_the_program(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = resolve_toolchain()
    without = Toolchain({n: t for n, t in tools.tools.items() if n != "nsys"}, tools.missing)
    monkeypatch.setattr(Service, "toolchain", lambda *_: without)
    report = profiled(program)
    timeline = report.files[0].timeline
    assert timeline is not None, report.unknown
    assert timeline.origin.startswith("CUPTI activity")
    assert timeline.kernels[0].launches == 20
    assert timeline.launches is not None
    assert timeline.launches.count == 20
