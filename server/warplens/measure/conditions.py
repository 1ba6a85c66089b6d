# SPDX-License-Identifier: Apache-2.0
"""The card and its state while it is measured, read through NVML."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from statistics import median

import msgspec

from warplens.measure.verdict import Conditions
from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.nvml import GpuState, gpu_state
from warplens_tools.errors import MissingToolError

#: Seconds between two readings: NVML itself refreshes power every 20 to 100 ms, and each goes through locks of the
#: driver that programs which start and end need, on other cards too.
_PERIOD = 0.2


def conditions_together(several: Sequence[Conditions]) -> Conditions:
    """Of several processes on one card: the medians of theirs, and whatever slowed any of them."""

    def middle(read: Callable[[Conditions], float | None]) -> float | None:
        values = [value for one in several if (value := read(one)) is not None]
        return median(values) if values else None

    return msgspec.structs.replace(
        several[0],
        sm_clock_mhz=middle(lambda one: one.sm_clock_mhz),
        memory_clock_mhz=middle(lambda one: one.memory_clock_mhz),
        temperature_c=middle(lambda one: one.temperature_c),
        power_w=middle(lambda one: one.power_w),
        throttling=tuple(dict.fromkeys(reason for one in several for reason in one.throttling)),
    )


class Watch:
    """Reads the card's state in the background between `start` and `stop`.

    Where NVML does not answer the state stays unknown; the card's identity does not come from there.
    """

    def __init__(self, gpu: Gpu, *, cuda: str) -> None:
        """`cuda`: the toolkit's version, e.g. "13.0.88"."""
        self._gpu = gpu
        self._cuda = cuda
        self._readings: list[GpuState] = []
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
            sm_clock_mhz=self._median(lambda state: state.sm_clock_mhz),
            memory_clock_mhz=self._median(lambda state: state.memory_clock_mhz),
            temperature_c=self._median(lambda state: state.temperature_c),
            power_w=self._median(lambda state: state.power_w),
            throttling=tuple(dict.fromkeys(r for state in list(self._readings) for r in state.slowed)),
        )

    def _median(self, read: Callable[[GpuState], float | None]) -> float | None:
        values = [value for state in list(self._readings) if (value := read(state)) is not None]
        return median(values) if values else None

    def _read_all(self) -> None:
        # no driver, or one that is gone in between, leaves the state unknown
        with contextlib.suppress(MissingToolError):
            while True:
                self._readings.append(gpu_state(self._gpu.uuid))
                if self._ended.wait(_PERIOD):
                    return
