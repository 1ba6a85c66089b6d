# SPDX-License-Identifier: Apache-2.0
"""The card's identity does not depend on NVML."""

from __future__ import annotations

import threading

import pytest
from tests.patience import PATIENCE

from warplens.measure import conditions
from warplens.measure.conditions import Watch, conditions_together
from warplens.measure.verdict import Conditions
from warplens_tools.arch.load import load_architecture
from warplens_tools.arch.nvml import GpuState
from warplens_tools.errors import MissingToolError


def test_without_a_driver_the_state_is_unknown() -> None:
    watch = Watch(load_architecture("sm_90"), cuda="13.0.88")
    watch.start()
    found = watch.stop()
    assert found.cuda == "13.0.88"
    assert (found.sm_clock_mhz, found.power_w, found.throttling) == (None, None, ())


def test_the_medians_of_what_nvml_read_and_every_slowdown(monkeypatch: pytest.MonkeyPatch) -> None:
    read = [
        GpuState(sm_clock_mhz=1980, power_w=300, throttling=("software power cap",)),
        GpuState(sm_clock_mhz=1700, power_w=None, throttling=("application clocks setting",)),
        GpuState(sm_clock_mhz=1600, power_w=500, throttling=("hardware slowdown", "software power cap")),
    ]
    gone = threading.Event()

    def state(uuid: str) -> GpuState:
        assert uuid == ""
        if read:
            return read.pop(0)
        gone.set()
        raise MissingToolError("the driver is gone")

    monkeypatch.setattr(conditions, "gpu_state", state)
    monkeypatch.setattr(conditions, "_PERIOD", 0.0)
    watch = Watch(load_architecture("sm_90"), cuda="13.0.88")
    watch.start()
    assert gone.wait(PATIENCE)
    found = watch.stop()
    assert (found.sm_clock_mhz, found.power_w, found.temperature_c) == (1700, 400, None)
    assert found.throttling == ("software power cap", "hardware slowdown")


def test_several_processes_keep_whatever_slowed_any_of_them() -> None:
    def one(clock: float | None, *throttling: str) -> Conditions:
        return Conditions("H200", "", "580", "13.0", sm_clock_mhz=clock, throttling=throttling)

    found = conditions_together([one(1980, "software power cap"), one(None), one(1700, "hardware slowdown")])
    assert (found.sm_clock_mhz, found.power_w) == (1840, None)
    assert found.throttling == ("software power cap", "hardware slowdown")
