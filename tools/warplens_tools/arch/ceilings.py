# SPDX-License-Identifier: Apache-2.0
"""Keeps measured ceilings per GPU and driver, and puts them in place of derived ones."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable
from pathlib import Path

import msgspec

from warplens_tools.arch.gpu import Ceiling, Gpu
from warplens_tools.arch.nvml import GpuState
from warplens_tools.decode import from_json
from warplens_tools.home import warplens_home

FORMAT_VERSION = 1


class Ruler(msgspec.Struct, frozen=True):
    """What one ruler kernel reached. Names are those of `Gpu.ceilings`, and more."""

    name: str
    #: "B/s", "FLOP/s", "op/s", or "ns" for launches.
    unit: str
    samples: tuple[float, ...]

    @property
    def best(self) -> float:
        """The figure kept: the highest rate, or shortest time. What disturbs a ruler (power capping, other
        work on the host) only ever slows it, and a roof is what the card was seen to reach."""
        return min(self.samples) if self.unit == "ns" else max(self.samples)

    @property
    def median(self) -> float:
        """The middle sample: what is reached while the card is kept busy."""
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """(largest - smallest) / median of the samples."""
        return (max(self.samples) - min(self.samples)) / self.median if self.median else 0.0


class Calibration(msgspec.Struct, frozen=True):
    """Every ruler on one card, with the conditions."""

    version: int
    gpu: str
    uuid: str
    driver: str
    compute_capability: str
    #: e.g. "nvcc 13.0.88".
    compiler: str
    #: ISO 8601, UTC.
    date: str
    rulers: tuple[Ruler, ...]
    #: Before and after, where NVML answers.
    states: tuple[GpuState, ...] = ()


def calibration_path(uuid: str, driver: str) -> Path:
    """Where the calibration of a card under a driver lies."""
    name = re.sub(r"[^\w.-]", "_", f"{uuid}-{driver}")
    return warplens_home() / "calibration" / f"{name}.json"


def save_calibration(calibration: Calibration) -> Path:
    """Write it, replacing an older one of the same card and driver."""
    path = calibration_path(calibration.uuid, calibration.driver)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(calibration), indent=1))
    partial.replace(path)
    return path


def load_calibration(uuid: str, driver: str) -> Calibration | None:
    """The calibration of a card under a driver; None where there is none, or none that can be read."""
    if not uuid:
        return None
    try:
        data = calibration_path(uuid, driver).read_bytes()
        found = from_json(data, Calibration)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if found.version == FORMAT_VERSION and found.uuid == uuid else None


def ceilings_of(calibration: Calibration) -> dict[str, Ceiling]:
    """The rulers as ceilings. The launch period becomes "launch", in launches per second."""
    found: dict[str, Ceiling] = {}
    for ruler in calibration.rulers:
        if not ruler.samples or ruler.best <= 0:
            continue
        source = (
            f"warplens calibrate on {calibration.gpu}, driver {calibration.driver}, "
            f"{calibration.date[:10]}; best of {len(ruler.samples)} samples, spread {ruler.spread:.1%}"
        )
        if ruler.unit.endswith("/s"):
            found[ruler.name] = Ceiling(ruler.best, ruler.unit, "calibrated", source)
        elif ruler.name == "launch_period":
            found["launch"] = Ceiling(1e9 / ruler.best, "launch/s", "calibrated", source)
    return found


def with_calibration(gpu: Gpu) -> Gpu:
    """The GPU with the ceilings measured on this very card; as it is where nothing was measured."""
    calibration = load_calibration(gpu.uuid, gpu.driver)
    if calibration is None:
        return gpu
    return msgspec.structs.replace(gpu, ceilings={**gpu.ceilings, **ceilings_of(calibration)})


def repeatability(runs: Iterable[Calibration]) -> dict[str, float]:
    """By ruler: (largest - smallest) / middle of its figures over several calibrations of one card."""
    figures: dict[str, list[float]] = {}
    for run in runs:
        for ruler in run.rulers:
            figures.setdefault(ruler.name, []).append(ruler.best)
    return {name: (max(f) - min(f)) / statistics.median(f) for name, f in figures.items()}
