"""The card and its state while it is measured, read through NVML."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable
from statistics import median
from typing import Any

from warplens.measure.verdict import Conditions
from warplens_tools.arch.gpu import Gpu

#: Seconds between two readings: NVML itself refreshes power every 20 to 100 ms.
_PERIOD = 0.1
#: NVML's clock event reasons that say the card could not run as fast as it would (nvml.h); "gpu idle",
#: "applications clocks setting" and "display clock setting" say no such thing.
_REASONS = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake slowdown",
}


class Watch:
    """Reads the card's state in the background between `start` and `stop`.

    Without nvidia-ml-py the state stays unknown; the card's identity does not come from there.
    """

    def __init__(self, gpu: Gpu, *, cuda: str) -> None:
        """`cuda`: the toolkit's version, e.g. "13.0.88"."""
        self._gpu = gpu
        self._cuda = cuda
        self._readings: list[dict[str, float]] = []
        self._reasons = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read_all, daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> Conditions:
        """End, and give what `now` gives."""
        self._ended.set()
        self._thread.join()
        return self.now()

    def now(self) -> Conditions:
        """The medians of what was read since `start`; None where NVML reads nothing."""
        return Conditions(
            gpu=self._gpu.name,
            uuid=self._gpu.uuid,
            driver=self._gpu.driver,
            cuda=self._cuda,
            sm_clock_mhz=self._median("sm"),
            memory_clock_mhz=self._median("memory"),
            temperature_c=self._median("temperature"),
            power_w=self._median("power"),
            throttling=tuple(name for bit, name in _REASONS.items() if self._reasons & bit),
        )

    def _median(self, name: str) -> float | None:
        values = [reading[name] for reading in list(self._readings) if name in reading]
        return median(values) if values else None

    def _read_all(self) -> None:
        try:
            pynvml: Any = importlib.import_module("pynvml")
        except ImportError:
            return
        # a driver without NVML, or one that is gone in between, leaves the state unknown
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlInit()
            try:
                handle = pynvml.nvmlDeviceGetHandleByUUID(self._gpu.uuid.encode())
                while True:
                    self._read(pynvml, handle)
                    if self._ended.wait(_PERIOD):
                        return
            finally:
                pynvml.nvmlShutdown()

    def _read(self, nvml: Any, handle: Any) -> None:
        reading: dict[str, float] = {}
        sources: dict[str, Callable[[], Any]] = {
            "sm": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "memory": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
            "temperature": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "power": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000.0,
        }
        for name, source in sources.items():
            with contextlib.suppress(nvml.NVMLError):
                reading[name] = float(source())
        with contextlib.suppress(nvml.NVMLError):
            self._reasons |= int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        self._readings.append(reading)
