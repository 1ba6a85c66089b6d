"""The card's identity does not depend on NVML."""

from __future__ import annotations

from warplens.measure.conditions import Watch
from warplens_tools.arch.load import load_architecture


def test_without_a_driver_the_state_is_unknown() -> None:
    watch = Watch(load_architecture("sm_90"), cuda="13.0.88")
    watch.start()
    found = watch.stop()
    assert found.cuda == "13.0.88"
    assert (found.sm_clock_mhz, found.power_w, found.throttling) == (None, None, ())
