# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.arch import nvml
from warplens_tools.arch.ceilings import (
    Calibration,
    Ruler,
    calibration_path,
    ceilings_of,
    load_calibration,
    repeatability,
    save_calibration,
    with_calibration,
)
from warplens_tools.arch.load import load_architecture
from warplens_tools.collect.calibrate import build_rulers, device_at, merged, parse_rulers
from warplens_tools.errors import MissingToolError
from warplens_tools.toolchain.locate import resolve_toolchain

OUTPUT = """{"device": "NVIDIA H200", "capability": "9.0"}
{"name": "dram", "unit": "B/s", "samples": [4.1e12, 4.2e12, 4.15e12]}
{"name": "launch_period", "unit": "ns", "samples": [2000, 2100, 1900]}
{"name": "l2", "unit": "B/s", "samples": [5.5e12
"""


def calibration(uuid: str = "GPU-1", driver: str = "580.1") -> Calibration:
    return Calibration(
        1, "NVIDIA H200", uuid, driver, "9.0", "nvcc 13.0", "2026-11-21T00:00:00+00:00", parse_rulers(OUTPUT)
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path))


def test_rulers_are_read_and_a_cut_line_is_not() -> None:
    dram, period = parse_rulers(OUTPUT)
    assert (dram.median, dram.best) == (4.15e12, 4.2e12)
    assert dram.spread == pytest.approx(0.1 / 4.15)
    assert (period.unit, period.best) == ("ns", 1900)


@given(st.text())
def test_any_output_is_survived(text: str) -> None:
    assert all(r.samples for r in parse_rulers(text))


@pytest.mark.usefixtures("home")
def test_ceilings_replace_derived_ones_on_the_same_card_only() -> None:
    save_calibration(calibration())
    stand_in = load_architecture("sm_90")
    card = msgspec.structs.replace(stand_in, uuid="GPU-1", driver="580.1", present=True)
    measured = with_calibration(card).ceilings
    assert (measured["dram"].value, measured["dram"].kind) == (4.2e12, "calibrated")
    assert "spread 2.4%" in measured["dram"].source
    assert measured["launch"].value == pytest.approx(1e9 / 1900)
    assert measured["fp32"] == stand_in.ceilings["fp32"], "what was not measured stays derived"
    other = msgspec.structs.replace(card, driver="590.2")
    assert with_calibration(other) == other
    assert with_calibration(stand_in) == stand_in


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 99}'])
@pytest.mark.usefixtures("home")
def test_a_damaged_calibration_counts_as_none(content: bytes) -> None:
    path = calibration_path("GPU-1", "580.1")
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert load_calibration("GPU-1", "580.1") is None


def test_several_runs_give_their_repeatability() -> None:
    first = calibration()
    faster = Ruler("dram", "B/s", (4.357e12,) * 3)
    second = msgspec.structs.replace(first, rulers=(faster, first.rulers[1]))
    assert repeatability([first, second])["dram"] == pytest.approx(0.157 / 4.2785, rel=0.01)
    assert len(merged([first, second]).rulers[0].samples) == 6
    assert "dram" in ceilings_of(merged([first, second]))


@pytest.mark.skipif(
    Path("/proc/driver/nvidia/version").exists(), reason="speaks of a machine without a driver"
)
def test_without_a_driver_it_says_so() -> None:
    with pytest.raises(MissingToolError, match="no GPU"):
        device_at(0)
    with pytest.raises(MissingToolError, match="no NVIDIA driver"):
        nvml.gpu_state("GPU-1")
    with nvml.states_around("GPU-1") as states:
        pass
    assert states == []


def test_throttle_reasons_have_names() -> None:
    assert nvml.throttle_reasons(0x4 | 0x1) == ("software power cap",)
    assert nvml.GpuState(throttling=("software power cap", "application clocks setting")).slowed == (
        "software power cap",
    )


@pytest.mark.compiler
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc with the CUDA runtime library")
@pytest.mark.usefixtures("home")
@pytest.mark.thorough
def test_the_rulers_build_once() -> None:
    toolchain = resolve_toolchain()
    program = build_rulers("8.0", toolchain=toolchain)
    assert program.is_file()
    assert build_rulers("8.0", toolchain=toolchain) == program
